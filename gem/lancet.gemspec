# frozen_string_literal: true

require_relative "lib/lancet/version"

# The repository that Cargo.toml names.
repository = "https://github.com/lancet/lancet"

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
  spec.homepage = repository
  spec.required_ruby_version = ">= 2.7"
  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.rb", "sig/*.rbs", "exe/*", "libexec/lancet", ".yardopts", "README.md", "LICENSE-*"].sort }
  spec.bindir = "exe"
  spec.executables = ["lancet"]
  spec.metadata = {
    "source_code_uri" => repository,
    "changelog_uri" => "#{repository}/blob/main/CHANGELOG.md",
    "documentation_uri" => "#{repository}/blob/main/gem/README.md",
    "bug_tracker_uri" => "#{repository}/issues",
    "rubygems_mfa_required" => "true"
  }
end
