# frozen_string_literal: true

require_relative "signature"
require_relative "tracer"

module Lancet
  # Middleware that traces requests: some of them at random, or one that asks for it by a signed header.
  #
  #   use Lancet::Rack, sample: 0.01, threshold: 0.5, log: logger
  #
  # Options are those of Tracer. What a body does when the server reads it, after the application has returned, is not in the trace.
  class Rack
    HEADER = "HTTP_X_LANCET_TRACE"
    ANSWER = "x-lancet-trace"
    private_constant :HEADER, :ANSWER

    # The value of the header `X-Lancet-Trace` that has one request traced, once and within so many seconds. `target` is its path and, behind a `?`, its query: the
    # path as the application sees it, decoded, and the query as it is sent.
    def self.signature(secret, method, target, seconds: 60, now: Time.now)
      Signature.of(secret, method, target, seconds: seconds, now: now)
    end

    # With a `secret`, a request with a header of `signature` is traced and told whatever the sample and the threshold say, and is
    # answered with its figures in `x-lancet-trace`.
    def initialize(app, secret: nil, **options, &told)
      raise ArgumentError, "an empty secret is none" if secret&.empty?

      @app = app
      @secret = secret
      @tracer = Tracer.new(**options, &told)
    end

    def call(env)
      request, asked = @tracer.border { chosen(env) }
      return @app.call(env) unless request

      answer, trace = @tracer.trace(request, always: asked) { @app.call(env) }
      return answer unless asked && trace

      @tracer.border { with_figures(answer, trace) } || answer
    end

    # Why the last request that was to be traced was not; nil: it was.
    def refused
      @tracer.refused
    end

    private

    # What is told of a request that is traced, and whether it has asked for that; nil: it is not traced.
    def chosen(env)
      asked = @secret && env.key?(HEADER) && Signature.first?(@secret, env[HEADER], [env["REQUEST_METHOD"], Trace.path_of(env), env["QUERY_STRING"]])
      [Trace.request_of(env), asked] if asked || @tracer.chosen?
    end

    def with_figures(answer, trace)
      figures = @tracer.figures(trace)
      return unless figures

      status, headers, body = answer
      [status, headers.merge(ANSWER => figures), body]
    end
  end
end
