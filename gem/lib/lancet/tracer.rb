# frozen_string_literal: true

require_relative "trace"

module Lancet
  # Traces some of many stretches of work (requests, jobs), each on the thread that does it, and tells of those that took long.
  # What goes wrong with a trace is said once, and the work is done all the same.
  class Tracer
    # What may go wrong within this library, at its beginning or its end. Not StandardError: an exception that another thread raises in this one, as a time limit of the
    # program's own does, is the program's.
    FAULTS = [Error, SystemCallError, IOError, JSON::JSONError, NameError, IndexError, TypeError, ArgumentError, EncodingError].freeze
    private_constant :FAULTS

    # Traces the part `sample` of all work (0 to 1), and tells of what took `threshold` seconds or more: to `log` (an IO, or whatever
    # has `info`) a line, to `file` a line of JSON, and to the block the trace itself.
    def initialize(sample: 0.01, threshold: 0, objects: true, calls: false, log: $stderr, file: nil, &told)
      raise ArgumentError, "sample is a part of all requests, from 0 to 1" unless sample.between?(0, 1)

      @sample = sample
      @threshold = threshold
      @objects = objects
      @calls = calls
      @log = log
      @file = file
      @told = told
      @refused = nil
    end

    # Whether the next work is to be traced.
    def chosen?
      @sample.positive? && (@sample >= 1 || rand < @sample)
    end

    # Does the work, traced; what it returns, and the trace, or nil if it could not be traced. With `always` it is told however long it took.
    def trace(work, always: false)
      trace = begun(work)
      return [yield, nil] unless trace

      begin
        result = yield
      ensure
        finish(trace, always ? 0 : @threshold)
      end
      [result, trace]
    end

    private

    def begun(work)
      trace = Trace.new(work)
      trace.begin(@objects, @calls)
      trace
    rescue *FAULTS => e
      refuse(e)
      nil
    end

    def finish(trace, least)
      trace.finish(method(:tell), least)
    rescue *FAULTS => e
      refuse(e)
    end

    def tell(trace)
      write(trace.to_s)
      trace.append_to(@file) if @file
      @told&.call(trace.keep)
    rescue StandardError => e
      refuse(e)
    end

    # Says why a request is not traced, once for each reason in a row. Where not even that can be written, nobody is told.
    def refuse(error)
      return if @refused == error.message

      @refused = error.message
      write("lancet: not traced: #{error.message}")
    rescue StandardError
      nil
    end

    def write(line)
      @log.respond_to?(:info) ? @log.info(line) : @log&.puts(line)
    end
  end
end
