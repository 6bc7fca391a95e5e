# frozen_string_literal: true

require "cgi"
require_relative "rack"
require_relative "recent"

module Lancet
  # Middleware that traces requests and shows the last of them on a page of the application: where the time of each went, its SQL, its waits, its objects.
  #
  # For development, where it traces every request: whoever can reach the page sees the paths that others have asked for. With `signed: true` only a
  # request with a header of Lancet::Rack.signature is traced (and the part `sample` of all others), and the page is shown to nobody else either.
  class Page
    # The page is made of what stands in it alone, whatever the application's own policy says.
    POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    DATA = "/*DATA*/"
    private_constant :POLICY, :DATA

    # `folder` is one in which Lancet::Sidekiq writes its jobs for the page, and `root` that of the application, to which paths are told in relation.
    def initialize(app, path: "/lancet", signed: false, folder: nil, root: Dir.pwd, **options)
      raise ArgumentError, "a page that is signed needs the secret" if signed && options[:secret].nil?

      @app = app
      @path = path.b
      @signed = signed
      @root = root.to_s.chomp("/")
      @recent = Recent.new(folder: folder)
      options[:calls] = Counters::SHOWN if [nil, true].include?(options[:calls])
      options[:sample] = 1 unless signed
      @traced = Rack.new(app, sample: 0, log: nil, keep: false, routes: true, **options) { |trace| @recent.add(trace) }
    end

    def call(env)
      return @traced.call(env) unless env["PATH_INFO"].to_s.b == @path && env["REQUEST_METHOD"] == "GET"
      # As if there were no page.
      return @app.call(env) if @signed && !@traced.asks?(env)

      [200, { "content-type" => "text/html; charset=utf-8", "cache-control" => "no-store", "content-security-policy" => POLICY }, [html]]
    end

    private

    # The companion has the page, which is that of `lancet profile` and `lancet heap` with another script.
    def html
      @template ||= begin
        page = nil
        Companion.begin("\"do\":\"page\"") { |record| page = record }
        page
      end
      data = @recent.to_json(refused: Recent.clean(@traced.refused), folder: @root)
      at = @template.index(DATA)
      # A text with `</script>` must not end the element that holds the data.
      @template[0...at] + data.gsub("<", "\\u003c") + @template[(at + DATA.size)..]
    rescue Error => e
      "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>lancet</title><p>#{CGI.escapeHTML(Recent.clean(e.message))}</html>"
    end
  end
end
