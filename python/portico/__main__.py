from portico._program import main

main()
