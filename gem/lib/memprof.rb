# frozen_string_literal: true

require_relative "lancet/block"
require_relative "lancet/tracer"

# The memory profiler of 2009, over lancet: which line has made the objects that live?
#
#   Memprof.start
#   …
#   Memprof.stats      # "   1000 app.rb:12:String", to standard error or to a file
#   Memprof.stop
#
# What a child of a fork makes is not tracked before it calls `start` itself.
module Memprof
  NOT_STARTED = "object tracking disabled, call Memprof.start first"
  private_constant :NOT_STARTED

  # Traces requests for `trace_request`, to `trace_filename`; where that is nil, to the file that the block names or, without one, to standard error.
  class Requests < Lancet::Tracer
    def initialize(&file)
      super(sample: 1)
      @otherwise = file
    end

    # Serves a request, and adds its line.
    def of(env, &served)
      @calls = Memprof.trace_calls
      trace(Lancet::Trace.request_of(env), &served).first
    end

    private

    def tell(trace)
      if (file = Memprof.trace_filename)
        trace.append_to(file)
      elsif @otherwise
        trace.append_to(@otherwise.call, follow: false)
      else
        write(trace.to_json)
      end
    end

    # To the standard error of now.
    def write(line)
      $stderr.puts(line)
    end
  end
  private_constant :Requests

  @requests = Requests.new
  @lock = Monitor.new
  @started = nil
  @trace_calls = true

  class << self
    # Tracks all objects that are made from now on. Returns false if it does already.
    def start
      @lock.synchronize do
        return false if goes_on?

        @started = Lancet::Block.new
        true
      end
    end

    # Forgets all objects and tracks none. Returns false if none were tracked.
    def stop
      @lock.synchronize do
        block = started
        @started = nil
        block&.end
        !block.nil?
      end
    end

    # Writes how many objects of each line and type live, the most first. Within `track` those of its block.
    def stats(file = nil)
      current { |block| write_stats(block, file) }
    end

    # The same, and forgets them; objects are tracked on.
    def stats!(file = nil)
      current do |block|
        write_stats(block, file)
        block.forget
      end
      nil
    end

    # Tracks the objects that are made in the block, and writes how many of each line and type live at its end.
    def track(file = nil)
      raise ArgumentError, "block required" unless block_given?

      within do |block|
        yield
        write_stats(block, file) unless block.forked?
      end
    end

    # Writes one JSON object a line for each object that was made in the block and lives at its end. With `contents`, what
    # it holds stands there too. Without a block those that are tracked since `start`.
    def dump(file = nil, contents: false)
      return current { |block| write_objects(block, file, contents) } unless block_given?

      within do |block|
        yield
        write_objects(block, file, contents) unless block.forked?
      end
    end

    # Saves the whole heap of the process, for `lancet heap FILE`: see Lancet.heap. Memprof's was for a web page that is no more.
    def dump_all(file, **options)
      Lancet.heap(file, **options)
      nil
    end

    # The rows that `stats` would write; nil if nothing is tracked.
    def rows
      current(&:rows)
    rescue RuntimeError => e
      raise if e.message != NOT_STARTED

      nil
    end

    # The file to which `trace` and `trace_request` add a line each; nil is standard error.
    attr_accessor :trace_filename

    # Which calls `trace` counts: true, the usual groups; a list of groups; false, none (see Lancet::Counters).
    attr_accessor :trace_calls

    # Adds a line of JSON to that file: what this thread has done in the block. Returns what the block does.
    def trace(file = trace_filename, &block)
      raise ArgumentError, "block required" unless block

      ended = ->(trace) { write_trace(trace, file) }
      Lancet::Trace.of(calls: trace_calls, ended: ended, &block).result
    end

    # The same of a request, of whose Rack environment the method and the path are told, and no query, which may hold secrets. It is served whatever becomes of the trace;
    # what goes wrong is said once.
    def trace_request(env, &block)
      raise ArgumentError, "block required" unless block

      @requests.of(env, &block)
    end

    private

    def write_trace(trace, file)
      return $stderr.puts(trace.to_json) unless file

      begin
        trace.append_to(file)
      rescue SystemCallError => e
        raise ArgumentError, "unable to open output file: #{e.message}"
      end
    end

    # The block of `start`. That of a parent is none of ours.
    def started
      @started = nil if @started&.forked?
      @started
    end

    # Whether objects are tracked; the companion may have been killed unnoticed.
    def goes_on?
      started&.check
      !started.nil?
    rescue Lancet::Lost
      @started = nil
      false
    end

    # The innermost block of this thread's `track`, or that of `start`.
    def current
      @lock.synchronize do
        block = blocks.reject(&:forked?).last || started
        raise NOT_STARTED unless block

        begin
          yield block
        rescue Lancet::Lost
          @started = nil
          raise
        end
      end
    end

    def within
      block = Lancet::Block.new
      blocks.push(block)
      yield block
      nil
    ensure
      if block
        blocks.delete(block)
        block.drop
      end
    end

    def blocks
      Thread.current[:memprof_blocks] ||= []
    end

    def write_stats(block, file)
      block.rows do |rows|
        output(file) do |out|
          rows.each { |row| out.puts(format("%7d %s", row.live, row)) }
        end
      end
      nil
    end

    def write_objects(block, file, contents)
      output(file) do |out|
        block.each_object(contents: contents) { |object| out.puts(JSON.generate(object)) }
      end
    end

    def output(file, &block)
      return yield($stderr) unless file

      begin
        out = File.open(file, "w", 0o600)
      rescue SystemCallError => e
        raise ArgumentError, "unable to open output file: #{e.message}"
      end
      begin
        block.call(out)
      ensure
        out.close
      end
    end
  end
end
