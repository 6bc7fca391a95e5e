# frozen_string_literal: true

require_relative "lib/lancet/version"

Gem::Specification.new do |spec|
  spec.name = "lancet"
  spec.version = Lancet::VERSION
  # The program that it carries is static, for any Linux of this processor.
  spec.platform = "x86_64-linux"
  spec.summary = "Memprof for today's Ruby, and what your lines do: objects, C calls, system calls, stacks"
  spec.description = "The memory profiler of 2009 over lancet, which opens the running Ruby from a process beside it: " \
                     "no C extension, nothing to compile, nothing patched. Watches C and system calls of a block too."
  spec.authors = ["The lancet developers"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.required_ruby_version = ">= 2.7"
  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.rb", "exe/*", "libexec/lancet", "README.md", "LICENSE-*"] }
  spec.bindir = "exe"
  spec.executables = ["lancet"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
