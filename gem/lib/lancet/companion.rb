# frozen_string_literal: true

require "json"
require "monitor"
require "socket"
require_relative "error"
require_relative "permission"
require_relative "program"

module Lancet
  # The lancet that has this process open, and the socket to it: docs/inside.md has the lines.
  #
  # Each process has its own. It is started when it is first needed; a child of a fork starts another one. What objects are
  # made here while a block is tracked is made in files of this folder, which the companion leaves out; and it tracks nothing
  # from a count until `resume`, so a long answer may be read by any library.
  class Companion
    PROTOCOL = 4
    # Nothing is heard of it for longer only if it hangs: opening a process and leaving it are given up after 60 s, and of a command that takes longer it says so.
    PATIENCE = 150
    # A companion that was killed is an error of the request, and no SIGPIPE, which ends a program that has the system's own handling of it. A pipe has no such flag.
    QUIET = Socket::MSG_NOSIGNAL
    ENDED = "lancet's companion has ended (was it killed?), and what it had counted is gone: the next call starts another one"
    SILENT = "lancet's companion has not answered for #{PATIENCE} s and was given up: the next call starts another one"
    private_constant :QUIET, :ENDED, :SILENT

    @lock = Monitor.new
    @current = nil

    class << self
      # Returns the companion of this process, and starts one if it has none or its companion has ended.
      def current
        refuse_in_handlers
        @lock.synchronize do
          forget if @current&.forked?
          @current = new if @current.nil? || @current.over?
          @current
        end
      end

      # The handler of a signal cannot wait for a lock, which the code that it has interrupted may have.
      def refuse_in_handlers
        Mutex.new.synchronize { nil }
      rescue ThreadError
        raise Error, "lancet cannot be asked by the handler of a signal: have a thread do it, Thread.new { ... }"
      end

      # Asks for something that depends on nothing before. A companion that was killed unnoticed is replaced: it is asked again
      # only where nothing was heard, because the block would get its records twice. Returns the companion and the result.
      def begin(request)
        heard = again = false
        begin
          companion = current
          result = companion.ask(request) do |record|
            heard = true
            yield record if block_given?
          end
          [companion, result]
        rescue Lost => e
          raise if heard || again || e.is_a?(Silent)

          again = true
          retry
        end
      end

      # Called in the child of a fork: it has none, and keeps no socket of its parent's.
      def forget
        @current&.abandon
        @current = nil
      end

      # Texts as a list in JSON. Not by a library, whose objects would be of whatever is traced meanwhile.
      def list(texts)
        quoted = texts.map { |text| "\"#{text.to_s.gsub(/["\\\x00-\x1f]/) { |character| format("\\u%04x", character.ord) }}\"" }
        "[#{quoted.join(",")}]"
      end
    end

    # Process id of the companion.
    attr_reader :pid

    def initialize
      @owner = Process.pid
      @lock = Monitor.new
      @pending = +""
      @last = 0
      Thread.handle_interrupt(Object => :never) { start }
    end

    def over?
      @socket.nil? || forked?
    end

    # Whether the companion is a parent's, because this process is the child of a fork: it must not be asked.
    def forked?
      @owner != Process.pid
    end

    # Only one thread has the companion within the block.
    def synchronize(&block)
      Companion.refuse_in_handlers
      @lock.synchronize(&block)
    end

    # Asks for something, in the JSON that stands behind the number of a request; the result. Records go to the block.
    #
    # An exception of another thread or of a signal that comes within, or a `throw` as that of Timeout before its version 0.4, ends the companion: nobody could tell
    # any more what it has done. What the block raises does not: the rest of the answer is skipped.
    def ask(request)
      synchronize do
        raise Lost, ENDED if over?

        begin
          known = false
          result = Thread.handle_interrupt(Object => :never) do
            @last += 1
            tell("{\"id\":#{@last},#{request}}\n")
            answer do |record|
              known = true
              yield record if block_given?
              known = false
            end
          end
          known = true
          result
        rescue Error
          known = true
          raise
        ensure
          abandon unless known
        end
      end
    end

    # Has the companion leave and end, and closes our end of the socket. Children of a fork may have it too, so that it would not hear of that; and a child only
    # closes its own.
    def abandon
      # What stands before it in the socket may be a part of a request.
      @socket.sendmsg_nonblock("\n{\"id\":0,\"do\":\"leave\"}\n", QUIET, exception: false) unless over?
    rescue SystemCallError, IOError
      nil
    ensure
      @socket&.close
      @socket = nil
    end

    private

    def start
      program = Program.path
      words = [program, "companion", "--pid", @owner.to_s, "--hide", File.expand_path("..", __dir__)]
      @socket, theirs = UNIXSocket.pair
      # Not our other sockets, which others could not listen on as long as it has them. It has started the companion, which is not our child, and ends; the
      # program's `$?` is not of it.
      first = Process.detach(Process.spawn(*words, in: theirs, out: theirs, close_others: true))
      Thread.handle_interrupt(Object => :on_blocking) { first.join }
      theirs.close
      greet(hello(program))
      started = true
    rescue SystemCallError => e
      raise Error, "lancet cannot be started: #{e.message}"
    ensure
      theirs&.close
      abandon unless started
    end

    # The companion's first line.
    def hello(program)
      found = JSON.parse(line)
      return found if found.is_a?(Hash) && found["protocol"].is_a?(Integer) && found["pid"].is_a?(Integer)

      refuse(program)
    rescue Lost
      raise Error, "#{program} has not answered: is it a lancet, and not one of another machine?"
    rescue JSON::ParserError
      refuse(program)
    end

    def refuse(program)
      raise Error, "the first line that #{program} writes is no companion's: is it a lancet, or a script that writes something before?"
    end

    def greet(hello)
      unless hello["protocol"] == PROTOCOL
        raise Error, "lancet #{hello["lancet"]} speaks protocol #{hello["protocol"]}, and this gem #{PROTOCOL}: " \
                     "install the same version of both, or unset LANCET_BIN"
      end
      @pid = hello["pid"]
      Permission.give(@pid)
    end

    def tell(text)
      text = text.b
      text = text.byteslice(@socket.send(text, QUIET)..) until text.empty?
    rescue SystemCallError, IOError
      # It has ended, or the program has closed what is not its own.
      lose(Lost, ENDED)
    end

    # The result of the request that was made last.
    def answer
      loop do
        text = line
        next unless text =~ /\A\{"id":(\d+),"(record|ok|error|gone)":/

        name = $2
        # An error of number 0 is about a line that the companion could not read, and the only one that waits is ours.
        next unless $1.to_i == @last || ($1 == "0" && name == "error")

        value = parse($'[0..-3])
        case name
        when "ok" then return value
        when "error" then raise Error, value
        when "gone" then raise Lost, value
        else yield value
        end
      end
    end

    # Short results are read here, so that no library makes objects in a block that is tracked.
    def parse(text)
      case text
      when "{}" then {}
      when /\A\{"(\w+)":(\d+)\}\z/ then { $1.to_sym => $2.to_i }
      else JSON.parse(text, symbolize_names: true)
      end
    end

    # Returns the next line that the companion writes, with its line feed. Raises Lost if the companion has ended, or writes nothing for PATIENCE seconds.
    def line
      until (at = @pending.index("\n"))
        more = Thread.handle_interrupt(Object => :on_blocking) { IO.select([@socket], nil, nil, PATIENCE) }
        lose(Silent, SILENT) unless more

        # Not `read_nonblock`, which sockets have in a file of Ruby's: objects that are made there would be the program's.
        @pending << @socket.readpartial(65_536)
      end
      @pending.slice!(0..at).force_encoding(Encoding::UTF_8)
    rescue SystemCallError, IOError
      lose(Lost, ENDED)
    end

    def lose(error, why)
      abandon
      raise error, why
    end
  end

  # Ruby before 3.1 has no such method; there a child closes its parent's socket when it asks itself.
  module AtFork
    def _fork
      super.tap { |child| Companion.forget if child.zero? }
    end
  end
  private_constant :AtFork
  Process.singleton_class.prepend(AtFork) if Process.respond_to?(:_fork)
end
