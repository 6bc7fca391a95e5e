# frozen_string_literal: true

require "json"
require "mysql2"
require "objspace"

# Middleware below Lancet's: what the program itself sees of each request, appended to the file TRACES.measured as a line of JSON: seconds of wall clock,
# its queries and the seconds that they took, collections of garbage and their milliseconds by GC.stat (null where this Ruby does not tell). Of a request with the header
# `X-Objects`, which must be the only one then, also its objects by line and type, as trace_object_allocations has them.
class Measured
  # Counts on the thread that asks.
  module Queries
    def query(*)
      seen = Thread.current.thread_variable_get(:measured)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      super
    ensure
      if seen
        seen[:queries] += 1
        seen[:asking] += Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
      end
    end
  end
  Mysql2::Client.prepend(Queries)

  def initialize(app)
    @app = app
    @file = File.open("#{ENV.fetch("TRACES")}.measured", "a")
    @file.sync = true
  end

  def call(env)
    seen = { path: env["PATH_INFO"], queries: 0, asking: 0.0 }
    Thread.current.thread_variable_set(:measured, seen)
    before = figures
    answer = env.key?("HTTP_X_OBJECTS") ? counted(seen) { whole(env) } : whole(env)
    seen[:time], seen[:collections], seen[:collecting] = figures.zip(before).map { |now, past| now - past if now }
    answer
  ensure
    Thread.current.thread_variable_set(:measured, nil)
    @file.write("#{JSON.generate(seen)}\n")
  end

  private

  def figures
    [Process.clock_gettime(Process::CLOCK_MONOTONIC), GC.stat(:count), GC.stat[:time]]
  end

  # The queries of the body are the request's as well.
  def whole(env)
    status, headers, body = @app.call(env)
    text = []
    body.each { |part| text << part }
    body.close if body.respond_to?(:close)
    [status, headers, text]
  end

  # What is made is still there at the end, because nothing is collected.
  def counted(seen, &block)
    ObjectSpace.trace_object_allocations_clear
    GC.disable
    answer = ObjectSpace.trace_object_allocations(&block)
    seen[:lines] = lines
    answer
  ensure
    GC.enable
  end

  # Of objects that have a file by then, which only those have that were made in the block. Classes of ActiveRecord answer `name` themselves.
  def lines
    counts = Hash.new(0)
    (of, name) = [Kernel.instance_method(:class), Module.instance_method(:to_s)]
    ObjectSpace.each_object(BasicObject) do |object|
      file = ObjectSpace.allocation_sourcefile(object)
      counts[[file, ObjectSpace.allocation_sourceline(object), of.bind(object).call]] += 1 if file && file != __FILE__
    end
    counts.map { |(file, line, type), count| [file, line, name.bind(type).call, count] }
  end
end
