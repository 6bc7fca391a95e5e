# What `lancet patch ruby:…` has the VM evaluate: a lambda that is called with what to do, a target, a path, a text and an id.
# It answers with a string: fields are separated by U+001F, records by U+001E, and the first field says how it went.
lambda do |what, target, path, text, id|
  field, record = "\u001f", "\u001e"
  # Without Array#join, whose C function may itself be replaced.
  chain = lambda { |words, between| words.inject { |text, word| "#{text}#{between}#{word}" } || "" }
  plain = lambda { |word| word.to_s.scrub("?").tr("\u001e\u001f\n", "  ").strip }
  say = lambda { |*words| chain.call(words.map(&plain), field) }
  refused = Class.new(StandardError)
  all_patches = lambda { defined?($lancet_patches) && $lancet_patches || [] }
  keep = lambda { |patches| $lancet_patches = patches.empty? ? nil : patches }

  # The methods that a class or module has of its own, each with who may call it.
  own = lambda do |holder|
    %i[public protected private].flat_map do |who|
      holder.send("#{who}_instance_methods", false).map { |name| [name, [holder.instance_method(name), who]] }
    end.to_h
  end
  present = lambda do |holder, name|
    own.call(holder)[name]
  end
  put = lambda do |holder, name, method, who|
    if method
      holder.send(:define_method, name, method)
      holder.send(who, name)
    else
      holder.send(:remove_method, name)
    end
  end
  quiet = lambda do |&work|
    loud, $VERBOSE = $VERBOSE, nil
    begin
      work.call
    ensure
      $VERBOSE = loud
    end
  end
  # Puts back what `before` had and `holder` has not any more; what was changed, with what it is now.
  changes = lambda do |before|
    before.flat_map do |holder, methods|
      now = own.call(holder)
      (now.keys | methods.keys).map do |name|
        [holder, name, *(methods[name] || [nil, nil]), now[name] && now[name].first] if methods[name] != now[name]
      end.compact
    end
  end
  in_force = lambda do |patch|
    patch[:changes].all? do |holder, name, _, _, new|
      now = present.call(holder, name)
      new ? now && now.first == new : now.nil?
    end
  end

  # Whether a call of what a file defines may not have ended: in a thread, or in a fiber that stands.
  may_run = lambda do |path|
    inside = lambda { |one| (one.backtrace || []).any? { |line| line.start_with?("#{path}:") } }
    next true if Thread.list.any?(&inside)
    fibers = ObjectSpace.each_object(Fiber).select { |fiber| fiber.alive? && !fiber.equal?(Fiber.current) }
    # Before Ruby 3.0 fibers do not say where they stand.
    Fiber.method_defined?(:backtrace) ? fibers.any?(&inside) : fibers.any?
  end
  # Takes out the methods that the file has added, and the patch itself, unless a call may still need them.
  forget = lambda do |patch|
    next false if patch[:added].any? && may_run.call(patch[:path])
    quiet.call { patch[:added].each { |holder, name, _, _, new| put.call(holder, name, nil, nil) if present.call(holder, name)&.first == new } }
    keep.call(all_patches.call.reject { |one| one.equal?(patch) })
    true
  end

  find = lambda do
    holder, dot, name = target.match(/\A(.+?)([#.])([^#.]+)\z/)&.captures
    raise refused, "write it as Class#method or Class.method" unless holder
    scopes = []
    holder.split("::").reject(&:empty?).each do |word|
      raise refused, "#{word} is no constant's name" unless /\A[[:upper:]]\w*\z/.match?(word)
      scope = scopes.last || Object
      inherit = scopes.empty?
      raise refused, "there is no constant #{chain.call([*scopes, word].last(2), '::')}" unless scope.const_defined?(word, inherit)
      raise refused, "#{word} has not been loaded yet (autoload)" if scope.autoload?(word)
      value = scope.const_get(word, inherit)
      raise refused, "#{word} is no class or module" unless Module === value
      scopes << value
    end
    home = dot == "#" ? scopes.last : scopes.last.singleton_class
    begin
      old = home.instance_method(name)
    rescue NameError
      raise refused, "it has no method #{name}"
    end
    if old.source_location.nil?
      raise refused, "the method is written in C: name its C function instead (lancet patch FUNCTION=FILE.so:NEW)"
    end
    front = home.ancestors.take_while { |one| !one.equal?(home) }
    if front.any? { |one| one.equal?(old.owner) }
      raise refused, "the module #{old.owner.inspect}, which is prepended, defines it: name #{old.owner.inspect}##{name}"
    end
    raise refused, "#{home.inspect} is frozen" if home.frozen?
    [scopes, home, name.to_sym, old]
  end

  check = lambda do
    quiet.call { RubyVM::InstructionSequence.compile(text, path, path) }
  rescue SyntaxError => error
    raise refused, error.message.lines.map(&:strip).reject(&:empty?).first(2).then { |lines| chain.call(lines, " ") }
  end

  apply = lambda do
    scopes, home, name, old = find.call
    check.call
    patches = all_patches.call
    number = (patches.map { |patch| patch[:id] }.max || 0) + 1
    # By this name it calls the old method.
    original = "lancet_original_s#{number}"
    named = text.gsub(/\blancet_original\b/, original)
    # The text stands in the bodies of the classes that its method is in, so that it sees the same constants; what it says
    # about itself in comments at its beginning stays there.
    notes = text.lines.take_while { |line| line.start_with?("#") }
    bodies = scopes.zip(target.split(/[#.]/).first.split("::").reject(&:empty?)).map.with_index do |(scope, word), at|
      "#{Class === scope ? 'class' : 'module'} #{'::' if at.zero?}#{word}"
    end
    source = "#{chain.call(notes, '')}#{chain.call(bodies, '; ')}\n#{named}\n#{'end; ' * bodies.size}"
    holders = [scopes.last, scopes.last.singleton_class]
    before = holders.map { |holder| [holder, own.call(holder)] }
    owned = before.assoc(home).last[name]
    who = owned ? owned.last : %i[private protected].find { |one| home.send("#{one}_method_defined?", name) } || :public
    failed = nil
    begin
      unless named == text
        home.send(:alias_method, original, name)
        home.send(:private, original)
      end
      quiet.call { eval(source, TOPLEVEL_BINDING, path, -notes.size) }
      now = present.call(home, name)
      if now.nil? || owned && now.first == owned.first
        said = home.equal?(scopes.last) ? name : "self.#{name}"
        failed = "#{path} does not define it: it has no `def #{said}`"
      end
    rescue Exception => error # rubocop:disable Lint/RescueException: put back what is half done, whatever it was
      at = (error.backtrace || []).find { |line| line.start_with?(path) }
      failed = "#{at && "#{at.split(':in').first}: "}#{error.message} (#{error.class})"
      # A signal or an exit that was meant for the program, not for us.
      Thread.new { Thread.main.raise(error) } if SignalException === error || SystemExit === error
    end
    changed = changes.call(before)
    if failed
      quiet.call { changed.each { |holder, one, method, visible, _| put.call(holder, one, method, visible) } }
      raise refused, failed
    end
    home.send(who, name)
    changed = changes.call(before)
    old_at = chain.call(old.source_location, ":")
    # What the file adds beside its method may be needed by calls that still run when it is taken back.
    added, replaced = changed.partition { |holder, one, method,| method.nil? && !(holder.equal?(home) && one == name) }
    defined = changed.size - (named == text ? 0 : 1)
    keep.call(patches + [{ id: number, target: target, path: path, old: old_at, defined: defined, changes: replaced, added: added, ends: false }])
    ["done", number, target, path, old_at, defined]
  end

  undo = lambda do
    patches = all_patches.call
    patch = patches.find { |one| one[:id] == id }
    raise refused, "there is no patch s#{id}" unless patch
    raise refused, "it is taken back already, and calls of it still run" if patch[:ends]
    unless in_force.call(patch)
      later = patches.reverse.find { |one| one[:id] > id && !one[:ends] && (one[:changes].map { |c| c.first(2) } & patch[:changes].map { |c| c.first(2) }).any? }
      raise refused, "the method was changed since#{later ? ", by patch s#{later[:id]}: take that back first" : ' by the program itself'}"
    end
    quiet.call { patch[:changes].each { |holder, name, method, who, _| put.call(holder, name, method, who) } }
    patch[:ends] = true
    [forget.call(patch) ? "done" : "ends", id, patch[:target], patch[:path], patch[:old], 0]
  end

  list = lambda do
    rows = all_patches.call.map do |patch|
      state = patch[:ends] ? "ends" : in_force.call(patch) ? "in force" : "covered"
      [state, patch[:id], patch[:target], patch[:path], patch[:old], patch[:defined]]
    end
    ["done", *rows]
  end

  answer = nil
  # What other threads raise here (Timeout, Thread#raise) is raised when this is done.
  Thread.handle_interrupt(Object => :never) do
    begin
      all_patches.call.select { |patch| patch[:ends] }.each(&forget)
      found = case what
              when "apply" then [apply.call]
              when "undo" then [undo.call]
              when "list" then list.call.drop(1).unshift(["done"])
              else
                _, _, _, old = find.call
                check.call
                [["done", 0, target, path, chain.call(old.source_location, ":"), 0]]
              end
      answer = chain.call(found.map { |words| say.call(*words) }, record)
    rescue refused => error
      answer = say.call("refused", error.message)
    rescue StandardError, ScriptError => error
      answer = say.call("refused", "#{error.message} (#{error.class})")
    end
  end
  answer
end
