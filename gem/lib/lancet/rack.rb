# frozen_string_literal: true

require "openssl"
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
    DIGEST = "SHA256"
    private_constant :HEADER, :ANSWER, :DIGEST

    class << self
      # The value of the header `X-Lancet-Trace` that has one request traced, within so many seconds.
      def signature(secret, method, path, seconds: 60, now: Time.now)
        until_then = now.to_i + seconds
        "#{until_then}:#{sign(secret, method, path, until_then)}"
      end

      # Whether such a value is one for this request, now.
      def signed?(secret, value, method, path, now: Time.now)
        until_then, signature = value.b.split(":", 2)
        return false unless until_then&.match?(/\A\d{1,12}\z/) && signature && Integer(until_then, 10) >= now.to_i

        # Compared under a key that nobody knows, so the time that it takes tells nothing.
        key = OpenSSL::Random.random_bytes(32)
        wanted = sign(secret, method, path, Integer(until_then, 10))
        OpenSSL::HMAC.digest(DIGEST, key, wanted) == OpenSSL::HMAC.digest(DIGEST, key, signature)
      end

      private

      def sign(secret, method, path, until_then)
        OpenSSL::HMAC.hexdigest(DIGEST, secret, "#{until_then} #{method} #{path}")
      end
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
      asked = @secret && env.key?(HEADER) && Rack.signed?(@secret, env[HEADER], env["REQUEST_METHOD"], Trace.path_of(env))
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
