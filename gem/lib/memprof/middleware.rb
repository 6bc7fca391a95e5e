# frozen_string_literal: true

require_relative "../memprof"

module Memprof
  # Memprof's middleware: after each request the objects that were made during it and live, by line and type, to standard error; with `force_gc: true` those that
  # a collection leaves. Objects of all threads count, so on a threaded server requests tell one another's; Lancet::Rack tells each its own.
  class Middleware
    def initialize(app, options = {})
      @app = app
      @options = options
    end

    def call(env)
      answer = nil
      Memprof.track do
        answer = @app.call(env)
        $stderr.puts("-" * 80)
        GC.start if @options[:force_gc]
      end
      answer
    end
  end
end
