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
    # answered with its figures in `x-lancet-trace`. With `routes` it is found out what answers it, for the page.
    def initialize(app, secret: nil, routes: false, **options, &told)
      raise ArgumentError, "secret is a String" unless secret.nil? || secret.is_a?(String)
      raise ArgumentError, "an empty secret is none" if secret&.empty?

      @app = app
      @secret = secret
      @routes = routes
      @tracer = Tracer.new(**options, &told)
    end

    def call(env)
      # Most requests get no further, so this is all that they pay.
      sampled = @tracer.chosen?
      return @app.call(env) unless sampled || (@secret && env[HEADER])

      request, asked = @tracer.border { chosen(env, sampled) }
      return @app.call(env) unless request

      answer, trace = @tracer.trace(request, always: asked, untraced: asked && -> { Signature.give_back(asked) }) { |begun| @routes ? served(env, begun) : @app.call(env) }
      return answer unless asked && trace

      @tracer.border { with_figures(answer, trace) } || answer
    end

    # Whether a request asks by its header, by which it may ask once.
    def asks?(env)
      @tracer.border { signed?(env) }
    end

    # Why the last request that was to be traced was not; nil: it was.
    def refused
      @tracer.refused
    end

    private

    # What is told of a request that is traced, and the value by which it has asked for that, if it has; nil: it is not traced.
    def chosen(env, sampled)
      asked = env[HEADER] if signed?(env)
      [Trace.request_of(env), asked] if asked || sampled
    end

    def signed?(env)
      value = env[HEADER] if @secret
      value && Signature.first?(@secret, value, [env["REQUEST_METHOD"], decoded(Trace.path_of(env)), env["QUERY_STRING"]])
    end

    # What the application answers. What answers there, is known only afterwards.
    def served(env, trace)
      @app.call(env)
    ensure
      @tracer.border { trace.route = Trace.route_of(env) } if trace
    end

    # A path as it is signed. Servers differ: puma hands it over as it was sent.
    def decoded(path)
      path.to_s.b.gsub(/%(\h\h)/) { $1.hex.chr }
    end

    def with_figures(answer, trace)
      figures = @tracer.figures(trace)
      return unless figures

      status, headers, body = answer
      [status, headers.merge(ANSWER => figures), body]
    end
  end
end
