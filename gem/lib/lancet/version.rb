# frozen_string_literal: true

module Lancet
  # That of the `lancet` program which the gem carries.
  VERSION = "0.1.0"
end
