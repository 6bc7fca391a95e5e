# frozen_string_literal: true

require "fileutils"
require "securerandom"
require_relative "trace"

module Lancet
  # The last requests and jobs that were traced, and what each route took before them: the data of the page (see Page). What objects are called is asked when a
  # trace is added, because the agent may leave; what calls were about only when somebody looks, because few are looked at.
  class Recent
    KEPT = 50
    # A request is compared with so many of its route, and so many routes are known.
    BEFORE = 100
    ROUTES = 500
    # What a path has in the place of a number or a name of its own.
    PARTS = %r{(?<=/)(?:\d+|\h{8}-\h{4}-\h{4}-\h{4}-\h{12}|\h{16,})(?=/|\z)}.freeze
    CREATED = /\A\{"created":(\d+)/.freeze
    # Bytes of a file of another process.
    LARGEST = 8 << 20
    # What a process was writing for so many seconds, it does not write any more.
    WRITTEN = 3600
    private_constant :KEPT, :BEFORE, :ROUTES, :PARTS, :CREATED, :LARGEST, :WRITTEN

    # A trace, and the figures of its route before it: seconds of wall clock and processor, objects.
    Entry = Struct.new(:id, :trace, :route, :objects, :before)
    private_constant :Entry

    # With a `folder`, what other processes have written there is told, too.
    def initialize(folder: nil)
      @folder = folder && File.expand_path(folder.to_s)
      @lock = Mutex.new
      @entries = []
      @routes = {}
      @last = 0
    end

    def add(trace)
      objects = trace.objects_as_json
      created = objects && objects[CREATED, 1].to_i
      @lock.synchronize do
        route = Recent.clean(trace.route || Recent.route(trace.request))
        @entries.unshift(Entry.new("#{word}-#{@last += 1}", trace, route, objects, figures_of(route).dup))
        @entries.pop if @entries.size > KEPT
        seen = figures_of(route)
        seen << [trace.seconds, trace.cpu, created]
        seen.shift if seen.size > BEFORE
      end
    end

    # Writes the last one into the folder, for the page of another process.
    def write
      entry = @lock.synchronize { @entries.first }
      text = json_of(entry)
      FileUtils.mkdir_p(@folder, mode: 0o700)
      name = File.join(@folder, "#{(entry.trace.started.to_r * 1_000_000_000).to_i}-#{entry.id}")
      File.open("#{name}.part", File::WRONLY | File::CREAT | File::EXCL, 0o600) { |file| file.write(text) }
      File.rename("#{name}.part", "#{name}.json")
      files.drop(KEPT).each { |path| File.unlink(path) }
      Dir[File.join(@folder, "*.part")].each { |path| File.unlink(path) if File.mtime(path) < Time.now - WRITTEN }
    rescue Errno::ENOENT
      # Another process has taken away an old one first.
      nil
    end

    # The data of the page as JSON.
    def to_json(refused: nil, folder: Dir.pwd)
      entries, routes = @lock.synchronize { [@entries.dup, @routes.transform_values(&:dup)] }
      requests = entries.map { |entry| json_of(entry) } + of_others
      shown = { who: "#{File.basename($PROGRAM_NAME)} (process #{Process.pid})", sums: "The last #{requests.size} that were traced", refused: refused, app: "#{folder}/",
                routes: routes.map { |route, seen| { route: route, **Recent.usual(seen) } } }
      shown = shown.transform_values { |value| Recent.clean(value) }
      "#{JSON.generate(shown).chop},\"requests\":[#{requests.join(",")}]}"
    end

    class << self
      # What requests have in common that no framework has a name for: the path without its numbers; and jobs: the class.
      def route(request)
        request[:job] || "#{request[:method]} #{clean(request[:path]).gsub(PARTS, ":id")}"
      end

      # The median and the 95th of a hundred, of each figure.
      def usual(seen)
        wall, cpu, created = Array.new(3) { |at| seen.map { |figures| figures[at] }.compact.sort }
        { count: seen.size, wall: ranks(wall), cpu: ranks(cpu), created: created.empty? ? nil : ranks(created) }
      end

      # Texts as JSON can have them: paths are bytes, and names of files have the encoding of theirs.
      def clean(value)
        return value unless value.is_a?(String)

        known = [Encoding::UTF_8, Encoding::BINARY, Encoding::US_ASCII].include?(value.encoding)
        text = known ? value.dup.force_encoding(Encoding::UTF_8) : value.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)
        text.scrub("?")
      end

      private

      def ranks(sorted)
        return [0, 0] if sorted.empty?

        [0.5, 0.95].map { |part| sorted[(part * (sorted.size - 1)).round] }
      end
    end

    private

    # Of this process alone: its number may be that of another one in another container.
    def word
      @word = [Process.pid, SecureRandom.hex(8)] unless @word && @word[0] == Process.pid
      @word[1]
    end

    def figures_of(route)
      @routes.shift if @routes.size >= ROUTES && !@routes.key?(route)
      @routes[route] ||= []
    end

    def json_of(entry)
      trace = entry.trace
      details = trace.details
      request = trace.request.transform_values { |value| Recent.clean(value.to_s) }
      title = request[:job] ? request.values_at(:job, :queue).compact.join(" on ") : request.values_at(:method, :path).join(" ")
      head = { id: entry.id, job: !request[:job].nil?, title: title, route: entry.route, started: trace.start, wall: trace.seconds, cpu: trace.cpu,
               gc: { calls: trace.collections, time: trace.collecting }, sums: sums(trace.calls), details: details, before: Recent.usual(entry.before), lost: trace.lost }
      "#{JSON.generate(head).chop},\"objects\":#{entry.objects || "null"}}"
    end

    def sums(calls)
      calls&.map { |group, sum| { group: group, calls: sum.calls, time_ns: (sum.time * 1e9).round, bytes: sum.bytes } }
    end

    # Files of the folder, the last first.
    def files
      Dir[File.join(@folder, "*.json")].sort_by { |path| File.basename(path).to_i }.reverse
    end

    # What other processes have written. Only files of this user's own are read, and through no link.
    def of_others
      return [] unless @folder

      mine = /-#{word}-\d+\.json\z/
      files.grep_v(mine).first(KEPT).map { |path| file(path) }.compact
    end

    def file(path)
      File.open(path, File::RDONLY | File::NOFOLLOW | File::NONBLOCK) do |file|
        seen = file.stat
        JSON.generate(JSON.parse(file.read)) if seen.file? && seen.owned? && seen.size <= LARGEST
      end
    rescue SystemCallError, JSON::ParserError
      nil
    end
  end
end
