# frozen_string_literal: true

require_relative "../memprof"

module Memprof
  # Memprof's middleware that traces every request, to `Memprof.trace_filename` or a file in /tmp, of each process its own. Lancet::Rack samples and has a threshold.
  class Tracer
    # The file of this process. In /tmp anybody may have made something of that name before: it must be a file of this user's own, or no line is written.
    def self.file
      Memprof.trace_filename || "/tmp/memprof_tracer-#{Process.pid}.json"
    end

    @requests = Requests.new { file }

    # Serves a request, and adds its line to that file.
    def self.serve(env, &served)
      @requests.of(env, &served)
    end

    def initialize(app)
      @app = app
    end

    def call(env)
      Tracer.serve(env) { @app.call(env) }
    end
  end

  # The same around actions of a Rails controller, which are told too: `around_action Memprof::Filter`.
  module Filter
    def self.around(controller, &action)
      Tracer.serve(controller.request.env, &action)
    end

    # The name under which Rails 2 called `around`.
    def self.filter(controller, &action)
      around(controller, &action)
    end
  end
end
