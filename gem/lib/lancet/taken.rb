# frozen_string_literal: true

module Lancet
  # Signatures that some process of this user's has taken on this machine, as empty files of a folder that nobody else can reach: of several workers of a server
  # one takes a signature. The wheel for Python has the same folder. Where there can be none, each process remembers its own alone.
  module Taken
    # Files of signatures that have no time left are removed now and then: at every so many.
    TIDIED_EVERY = 256
    private_constant :TIDIED_EVERY

    @count = 0

    class << self
      # Takes a signature that is good until a second of the clock; false if another process has done so.
      def take(signature, until_then, now)
        found = folder or return true
        tidy(found, now) if (@count += 1) % TIDIED_EVERY == 1
        File.open(name(found, signature, until_then), File::WRONLY | File::CREAT | File::EXCL | File::NOFOLLOW, 0o600) { true }
      rescue Errno::EEXIST
        false
      rescue SystemCallError
        true
      end

      def give_back(signature, until_then)
        found = folder or return
        File.unlink(name(found, signature, until_then))
      rescue SystemCallError
        nil
      end

      private

      def name(folder, signature, until_then)
        File.join(folder, "#{until_then}-#{signature}")
      end

      # The folder, if it is ours and closed to others: the name is one that anybody could take first.
      def folder
        path = File.join(ENV["TMPDIR"] || "/tmp", "lancet-signed-#{Process.euid}")
        begin
          Dir.mkdir(path, 0o700)
        rescue Errno::EEXIST
          # By another process, or before.
        end
        seen = File.lstat(path)
        path if seen.directory? && seen.owned? && (seen.mode & 0o077).zero?
      rescue SystemCallError
        nil
      end

      def tidy(folder, now)
        Dir.each_child(folder) { |file| File.unlink(File.join(folder, file)) if file.to_i < now }
      end
    end
  end
end
