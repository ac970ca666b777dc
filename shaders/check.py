#!/usr/bin/env python3
"""Compiles all kernels of a folder with both compilers, warnings as errors:

    check.py shaders [--target vulkan|opencl] [--glslc glslc] [--newer glslc] [--clang clang]
                     [--only PATTERN ...]

glslc -Werror compiles the Vulkan side, and leaves out what the build leaves out (embed.py); clang -x cl -cl-std=CL1.2
-Wall -Wextra -Werror parses the OpenCL side with specialisation constants at their initial values, and VECTOR_16 for
the rows that need it, as the plugin gives it; rows that need INTEGER_DOT also as OpenCL C 3.0 with BYTES, and those
that need MIXED_FLOAT_DOT for one of AMD's GPUs with DOT2_AMD. Each side has the rows that its language has words for
(LACKS of embed.py). Exit status 1 names the kernels that fail, 77 says that there is no clang.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile

import embed

SPEC = re.compile(r'^SPEC\(\s*(\d+)\s*,\s*\w+\s*,\s*(-?\w+)\s*\)', re.MULTILINE)


def check_vulkan(kernel, sources, glslc, folder):
    try:
        _, words = embed.compile_spirv(kernel, embed.glsl_text(kernel, sources), glslc, folder, ['-Werror'])
    except RuntimeError as error:
        return str(error)
    return words and f'kernel {kernel.name}:\n{words}'


def check_opencl(kernel, sources, clang, folder):
    text = embed.opencl_text(kernel, sources)
    specs = {0: '64', 1: '1', 2: '1'}
    specs.update({int(number): value for number, value in SPEC.findall(text)})
    path = os.path.join(folder, kernel.name + '.cl')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    ways = [['-cl-std=CL1.2', *(['-DVECTOR_16'] if kernel.needs_any(['VECTOR_16']) else [])]]
    if kernel.needs_any(['INTEGER_DOT']):  # what cl_khr_integer_dot_product has is declared for SPIR alone
        ways.append(['-cl-std=CL3.0', '-DBYTES', '-target', 'spir64', '-Xclang', '-finclude-default-header'])
    if kernel.needs_any(['MIXED_FLOAT_DOT']):
        ways.append(['-cl-std=CL1.2', '-DDOT2_AMD', '-target', 'amdgcn-amd-amdhsa', '-mcpu=gfx1030', '-nogpulib'])
    for own in ways:
        done = subprocess.run([clang, '-x', 'cl', *own, '-Wall', '-Wextra', '-Werror', '-fsyntax-only',
                               *[f'-DS{number}={value}' for number, value in specs.items()], path],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            return f'kernel {kernel.name} ({kernel.file} {kernel.defines}, {own[0]}):\n{done.stderr}'
    return ''


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder')
    parser.add_argument('--target', choices=['vulkan', 'opencl'], help='only this one')
    parser.add_argument('--glslc', default='glslc')
    parser.add_argument('--newer', metavar='GLSLC', help='for rows that the other cannot compile')
    parser.add_argument('--clang', default='clang')
    parser.add_argument('--only', action='append', metavar='PATTERN')
    args = parser.parse_args()

    if args.target != 'vulkan' and not shutil.which(args.clang):
        print(f'{args.clang} is not here')
        return 77
    kernels = [kernel for kernel in embed.read_table(args.folder)
               if any(fnmatch.fnmatch(kernel.name, only) for only in args.only or ['*'])]
    sources = embed.Sources(args.folder)
    opencl = [kernel for kernel in kernels
              if args.target != 'vulkan' and not kernel.needs_any(embed.LACKS['opencl'])]
    vulkan = [kernel for kernel in kernels if args.target != 'opencl' and not kernel.needs_any(embed.LACKS['spirv'])]
    vulkan = [(kernel, glslc) for kernel, glslc in zip(vulkan, embed.compilers(args, vulkan, sources)) if glslc]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = [pool.submit(check_vulkan, kernel, sources, glslc, folder) for kernel, glslc in vulkan]
        jobs += [pool.submit(check_opencl, kernel, sources, args.clang, folder) for kernel in opencl]
        failures = [failure for failure in (job.result() for job in jobs) if failure]
    print('\n'.join('\n'.join(failure.split('\n')[:12]) for failure in failures) if failures else
          f'{len(vulkan)} kernels compile with glslc, {len(opencl)} with clang, without a warning')
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
