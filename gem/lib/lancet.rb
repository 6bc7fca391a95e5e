# frozen_string_literal: true

require_relative "lancet/version"
require_relative "lancet/error"
require_relative "lancet/block"
require_relative "lancet/allocations"
require_relative "lancet/leaks"
require_relative "lancet/watch"
require_relative "lancet/trace"
require_relative "memprof"

# What the lines of this program do, asked of a lancet that has it open from outside: see README.md.
module Lancet
  class << self
    # The objects that the block makes, by line and type, those of all threads.
    def allocations(&block)
      Allocations.of(&block)
    end

    # The lines of which objects are left over from each of several runs of the block.
    def leaks(runs: Leaks::RUNS, &block)
      Leaks.of(runs, &block)
    end

    # What this thread does in the block: objects by line and type, collections, time; with `calls: true` queries,
    # reads, writes and connects.
    def trace(objects: true, calls: false, &block)
      raise ArgumentError, "block required" unless block

      Trace.of(objects: objects, calls: calls, &block)
    end

    # The calls of these C functions that the block makes, as a list of Hashes with the names of docs/json.md. Options are
    # those of `lancet calls`: `preset: "sql"`, `min_time: "1ms"`.
    def calls(*functions, **options, &block)
      words = functions.flat_map { |function| ["-x", function.to_s] }
      Watch.during("calls", words + Watch.words(options), &block)
    end

    # The system calls that the block makes; those of these names, if any is named. Options are those of `lancet syscalls`.
    def syscalls(*names, **options, &block)
      words = names.empty? ? [] : ["-e", "trace=#{names.join(",")}"]
      Watch.during("syscalls", words + Watch.words(options), &block)
    end

    # Saves the whole heap, who refers to whom and by what name, in a file that `lancet heap FILE` reads and only its owner may. What each
    # object holds is in it only with `contents: true`. Returns the file's name; what could not be saved is told.
    def heap(file, contents: false)
      path = File.expand_path(file)
      ended = Watch.ended("heap", ["--save", path, *("--contents" if contents)])
      ended[:said].each { |line| warn "lancet: #{line}" } if ended[:exit] == 4
      raise Error, ended[:said].join("; ") unless [0, 4].include?(ended[:exit])

      path
    end

    # What each thread does and where, as a list of Hashes. Options are those of `lancet stack`.
    def stack(**options)
      Watch.run("stack", Watch.words(options))
    end
  end
end

# `gem "lancet"` in the Gemfile of a Rails application is all that it needs.
require_relative "lancet/railtie" if defined?(Rails::Railtie)
