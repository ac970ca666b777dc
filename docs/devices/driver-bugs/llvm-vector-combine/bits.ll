; The last of eight bits that lie in one byte.
define i1 @last(ptr %bits) {
  %all = load <8 x i1>, ptr %bits
  %last = extractelement <8 x i1> %all, i64 7
  ret i1 %last
}
