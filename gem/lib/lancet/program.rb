# frozen_string_literal: true

require_relative "error"

module Lancet
  # The `lancet` program: the file of LANCET_BIN, or the one in this gem.
  module Program
    CARRIED = File.expand_path("../../libexec/lancet", __dir__)

    def self.path
      path = ENV["LANCET_BIN"] || CARRIED
      return path if File.executable?(path)

      raise Error, "there is no program #{path}: install the gem for x86_64-linux " \
                   "(gem install lancet --platform x86_64-linux), or name a lancet in LANCET_BIN"
    end
  end
end
