# frozen_string_literal: true

require_relative "../memprof"

module Memprof
  # Memprof's middleware that traces every request, to `Memprof.trace_filename` or a file in /tmp. Lancet::Rack samples, has a threshold and serves what cannot be
  # traced all the same.
  class Tracer
    def self.file
      Memprof.trace_filename ||= "/tmp/memprof_tracer-#{Process.pid}.json"
    end

    def initialize(app)
      @app = app
    end

    def call(env)
      Tracer.file
      Memprof.trace_request(env) { @app.call(env) }
    end
  end

  # The same around actions of a Rails controller, which are told too: `around_action Memprof::Filter`.
  module Filter
    def self.around(controller, &action)
      Tracer.file
      Memprof.trace_request(controller.request.env, &action)
    end

    # As Rails 2 called it.
    def self.filter(controller, &action)
      around(controller, &action)
    end
  end
end
