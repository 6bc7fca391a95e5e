# frozen_string_literal: true

require "cgi"
require_relative "rack"

module Lancet
  # Middleware that traces every request and shows the last of them on a page of the application. For development: whoever can
  # reach the page sees the paths that others have asked for.
  class Page
    KEPT = 50
    LINES = 25
    STYLE = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{text-align:left;padding:.2em 1em .2em 0}"
    private_constant :KEPT, :LINES, :STYLE

    def initialize(app, path: "/lancet", **options)
      @path = path.b
      @lock = Mutex.new
      @traces = []
      @traced = Rack.new(app, sample: 1, log: nil, **options) { |trace| keep(trace.to_h) }
    end

    def call(env)
      return @traced.call(env) unless env["PATH_INFO"].to_s.b == @path && env["REQUEST_METHOD"] == "GET"

      [200, { "content-type" => "text/html; charset=utf-8", "cache-control" => "no-store" }, [html]]
    end

    private

    def keep(trace)
      @lock.synchronize do
        @traces.unshift(trace)
        @traces.pop if @traces.size > KEPT
      end
    end

    def html
      shown = @lock.synchronize { @traces.dup }.map { |trace| section(trace) }
      shown = ["<p>No request was traced yet.</p>"] if shown.empty?
      shown.unshift("<p>not traced: #{text(@traced.refused)}</p>") if @traced.refused
      "<!DOCTYPE html><html lang=en><meta charset=utf-8><title>lancet</title><style>#{STYLE}</style>" \
        "<h1>The last #{KEPT} requests</h1>#{shown.join}</html>"
    end

    def section(trace)
      objects = trace[:tracers][:objects]
      title = text("#{trace[:request].values.join(" ")}: #{milliseconds(trace[:time])}, " \
                   "#{milliseconds(trace[:cpu])} CPU, #{objects ? objects[:created] : "no"} objects counted")
      "<details><summary>#{title}</summary>#{lost(trace)}#{tracers(trace)}#{lines(objects)}</details>"
    end

    def lost(trace)
      trace[:lost].map { |line| "<p>#{text(line)}</p>" }.join
    end

    def tracers(trace)
      rows = trace[:tracers].reject { |name, _| name == :objects }.map { |name, figures| [name, JSON.generate(figures)] }
      table(%w[what figures], rows)
    end

    def lines(objects)
      return "" unless objects

      rows = objects[:lines].first(LINES).map { |row| [row[:count], "#{row[:file]}:#{row[:line]}", row[:type]] }
      table(%w[objects line type], rows)
    end

    def table(names, rows)
      head = names.map { |name| "<th>#{text(name)}" }.join
      "<table><tr>#{head}#{rows.map { |row| "<tr>#{row.map { |cell| "<td>#{text(cell)}" }.join}" }.join}</table>"
    end

    def milliseconds(seconds)
      format("%.1f ms", seconds * 1e3)
    end

    # What a request brings along is not written as HTML, and the page is UTF-8 whatever its encoding: paths are bytes, and names of files have the encoding of theirs.
    def text(value)
      text = value.to_s
      known = [Encoding::UTF_8, Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)
      text = known ? text.dup.force_encoding(Encoding::UTF_8) : text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)
      CGI.escapeHTML(text.scrub("?"))
    end
  end
end
