# frozen_string_literal: true

module Lancet
  # The right of the companion to open this process, where Yama gives it only to a process's ancestors.
  module Permission
    SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
    # `prctl` of x86-64 and PR_SET_PTRACER (include/uapi/linux/prctl.h). Yama knows the process from then on, and its children.
    PRCTL = 157
    PR_SET_PTRACER = 0x59616d61

    # Lets `pid` open us. Under other scopes there is nothing to be given (0), or it is not ours to give (2 and 3), and then the
    # companion says what to do.
    def self.give(pid)
      return unless File.exist?(SCOPE) && File.read(SCOPE).to_i == 1

      prctl(PR_SET_PTRACER, pid)
    end

    # Ruby has no `prctl`, and a C extension would have to be compiled. `syscall` is deprecated in words, which -w prints.
    def self.prctl(option, argument)
      verbose = $VERBOSE
      $VERBOSE = nil
      Kernel.syscall(PRCTL, option, argument, 0, 0, 0)
    ensure
      $VERBOSE = verbose
    end
  end
end
