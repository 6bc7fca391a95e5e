# frozen_string_literal: true

require_relative "trace"

module Lancet
  # Traces some of many stretches of work (requests, jobs), each on the thread that does it, and tells of those that took long.
  # What goes wrong with a trace is said once, and the work is done all the same.
  class Tracer
    # What may go wrong within this library, at its beginning or its end. Not StandardError: an exception that another thread raises in this one, as a time limit of the
    # program's own does, is the program's.
    FAULTS = [Error, SystemCallError, IOError, JSON::JSONError, NameError, IndexError, TypeError, ArgumentError, EncodingError].freeze
    # An exception of another thread waits while something of the program's is told: whatever comes out of it then is its own, and is not the request's.
    LATER = { StandardError => :never }.freeze
    # Seconds without a trace after one that could not begin, the first time and at most; each that follows waits twice as long.
    FIRST_REST = 1
    LONGEST_REST = 60
    private_constant :FAULTS, :LATER, :FIRST_REST, :LONGEST_REST

    # Why the last work that was to be traced was not; nil: it was.
    attr_reader :refused

    # Traces the part `sample` of all work (0 to 1), and tells of what took `threshold` seconds or more: to `log` (an IO, or whatever
    # has `info`) a line, to `file` a line of JSON, and to the block the trace itself. Without `keep` the block asks at once what it wants to know of objects.
    def initialize(sample: 0.01, threshold: 0, objects: true, calls: false, log: $stderr, file: nil, keep: true, &told)
      raise ArgumentError, "sample is a part of all requests, from 0 to 1" unless sample.between?(0, 1)

      raise ArgumentError, "threshold is a number of seconds" unless threshold.nil? || (threshold.is_a?(Numeric) && threshold >= 0)

      Counters.check(calls)

      @sample = sample
      @threshold = threshold || 0
      @objects = objects
      @calls = calls.is_a?(Array) ? calls.dup.freeze : calls
      @log = log
      @file = file
      @keep = keep
      @told = told
      @refused = @said = nil
      @rest = 0
      @rests_until = 0
    end

    # Whether the next work is to be traced.
    def chosen?
      @sample.positive? && (@sample >= 1 || rand < @sample)
    end

    # Does the work, which is given its trace; what it returns, and the trace, or nil if it could not be traced, which `untraced` is called for. With `always` it is told however
    # long it took.
    def trace(work, always: false, untraced: nil)
      trace = begun(work)
      unless trace
        border(&untraced) if untraced
        return [yield(nil), nil]
      end

      [yield(trace), trace]
    ensure
      finish(trace, always ? 0 : @threshold) if trace
    end

    # Does what a middleware does itself and is not the application's, and returns the result; nil if it fails, which is said once. The request is served all the
    # same.
    def border(&block)
      apart(&block)
    end

    # What is told of a trace in a header; nil if it cannot be.
    def figures(trace)
      trace.figures
    rescue *FAULTS => e
      refuse(e)
      nil
    end

    private

    def begun(work)
      return if rests?

      trace = Trace.new(work)
      trace.begin(@objects, @calls)
      @rest = 0
      @refused = nil
      begun = trace
    rescue *FAULTS => e
      rest(e)
      refuse(e)
      nil
    ensure
      trace.drop if trace && !begun
    end

    # What could not be begun (nobody may trace) is not tried again by each request, which would wait for it. A companion that has ended is replaced at once.
    def rest(error)
      return if error.instance_of?(Lost)

      @rest = (2 * @rest).clamp(FIRST_REST, LONGEST_REST)
      @rests_until = now + @rest
    end

    def rests?
      @rest.positive? && now < @rests_until
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def finish(trace, least)
      trace.finish(method(:tell), least)
    rescue *FAULTS => e
      refuse(e)
    end

    def tell(trace)
      if @log
        line = trace.to_s
        apart { write(line) }
      end
      trace.append_to(@file) if @file
      return unless @told

      trace.keep if @keep
      apart { @told.call(trace) }
    end

    # What the program does to tell a trace may fail in any way.
    def apart(&block)
      Thread.handle_interrupt(LATER) do
        block.call
      rescue StandardError => e
        refuse(e)
        nil
      end
    end

    # Says why a request is not traced, once for each reason in a row. Where not even that can be written, nobody is told.
    def refuse(error)
      @refused = error.message
      return if @said == @refused

      @said = @refused
      write("lancet: not traced: #{error.message}")
    rescue StandardError
      nil
    end

    def write(line)
      @log.respond_to?(:info) ? @log.info(line) : @log&.puts(line)
    end
  end
end
