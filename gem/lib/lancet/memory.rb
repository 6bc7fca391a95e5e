# frozen_string_literal: true

require_relative "error"

module Lancet
  # This process's own memory, in the kernel's file of it: how a thread reads what the agent has counted for it, and says that
  # it wants it counted, in some microseconds and without the companion.
  class Memory
    @lock = Mutex.new
    @current = nil

    class << self
      # That of this process. The file that a child of a fork has inherited is its parent's memory.
      def current
        memory = @current
        return memory if memory&.ours?

        @lock.synchronize { @current = new unless @current&.ours? }
        @current
      end
    end

    def initialize
      @owner = Process.pid
      @file = File.open("/proc/self/mem", File::RDWR | File::BINARY)
    rescue SystemCallError => e
      raise Error, "this process cannot open its own memory (#{e.message}): is /proc mounted, and is it dumpable (prctl(2))?"
    end

    def ours?
      @owner == Process.pid
    end

    # Bytes at an address; fails with Lost where nothing is mapped any more.
    def read(at, size)
      @file.pread(size, at)
    rescue SystemCallError, EOFError
      raise Lost, "what was counted is gone with the agent"
    end

    # Writes a word of 64 bits within the agent's image, which is never unmapped.
    def write(at, word)
      @file.pwrite([word].pack("Q"), at)
    rescue SystemCallError => e
      raise Error, "this process cannot write its own memory: #{e.message}"
    end
  end
end
