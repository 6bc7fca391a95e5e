# frozen_string_literal: true

require "openssl"
require_relative "taken"

module Lancet
  # The signed header with which a request asks for its trace: who knows the secret makes it, for one request.
  module Signature
    DIGEST = "SHA256"
    # Signatures that are remembered as used. Only who knows the secret makes one that is.
    MOST_USED = 4096
    private_constant :DIGEST

    # Those that this process has used and that have time left, and the second in which each is no good any more. Other processes: see Taken.
    @used = {}
    @lock = Mutex.new

    class << self
      # The value of the header for a method, and a path with its query behind a `?`.
      def of(secret, method, target, seconds:, now: Time.now)
        path, query = target.b.split("?", 2)
        stamp = "#{(now.to_i + seconds).to_i}:#{OpenSSL::Random.random_bytes(8).unpack1("H*")}"
        "#{stamp}:#{sign(secret, stamp, [method, path.to_s, query.to_s])}"
      end

      # Whether such a value is one for this request (method, path, query), now, and was not used before. It is used from now on.
      def first?(secret, value, request, now: Time.now)
        stamp, _, signature = value.b.rpartition(":")
        until_then = stamp[/\A(\d{1,12}):\h+\z/, 1]
        return false unless until_then && Integer(until_then, 10) >= now.to_i

        wanted = sign(secret, stamp, request)
        # Compared under a key that nobody knows, so the time that it takes tells nothing.
        key = OpenSSL::Random.random_bytes(32)
        return false unless OpenSSL::HMAC.digest(DIGEST, key, wanted) == OpenSSL::HMAC.digest(DIGEST, key, signature)

        take(wanted, Integer(until_then, 10), now.to_i)
      end

      # Takes back that such a value was used: nothing was traced by it, so it is good once more.
      def give_back(value)
        @lock.synchronize do
          signature = value.b.rpartition(":").last
          until_then = @used.delete(signature)
          Taken.give_back(signature, until_then) if until_then
        end
      end

      private

      def take(signature, until_then, now)
        @lock.synchronize do
          @used.delete_if { |_, last| last < now } if @used.size >= MOST_USED
          # None is forgotten that could be used again.
          return false if @used.key?(signature) || @used.size >= MOST_USED

          @used[signature] = until_then
          Taken.take(signature, until_then, now)
        end
      end

      # With the length of the path, so that what stands behind a `?` that is its own is not taken for the query.
      def sign(secret, stamp, request)
        method, path, query = request.map { |part| part.to_s.b }
        OpenSSL::HMAC.hexdigest(DIGEST, secret, "#{stamp} ".b << method << " #{path.bytesize} " << path << "?" << query)
      end
    end
  end
end
