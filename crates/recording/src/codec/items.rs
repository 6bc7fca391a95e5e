//! All items but calls and returns: definitions of what is named by a number from then on, losses, events, the end.

use super::*;

impl State {
    fn define(&mut self, which: usize) -> u32 {
        self.counts[which] += 1;
        self.counts[which] - 1
    }

    /// Writes any item and returns the number of what it defines.
    pub fn put(&mut self, out: &mut Vec<u8>, item: &Item) -> u32 {
        match item {
            Item::Head(head) => {
                out.push(kind::HEAD);
                put_text(out, &head.lancet);
                put_texts(out, &head.command);
                put(out, head.began);
            }
            Item::Guest(guest) => {
                out.push(kind::GUEST);
                put(out, u64::from(guest.pid as u32));
                put_texts(out, &guest.command);
                put_text(out, &guest.vm);
                return self.define(0);
            }
            Item::Module(module) => {
                out.push(kind::MODULE);
                put_text(out, &module.path);
                put_text(out, &module.name);
                out.push(module.main.into());
                put(out, module.bias);
                return self.define(1);
            }
            Item::Function(function) => {
                out.push(kind::FUNCTION);
                put(out, function.module.into());
                put_texts(out, &function.names);
                put(out, function.address);
                put(out, function.size);
                put_text(out, &function.prototype);
                return self.define(2);
            }
            Item::CallEdge(edge) => {
                out.push(kind::CALL_EDGE);
                put(out, edge.function.into());
                put(out, or_zero(edge.from));
                put(out, edge.slots);
                return self.define(3);
            }
            Item::Line(line) => {
                out.push(kind::LINE);
                put_text(out, &line.path);
                put(out, line.line.into());
                put_text(out, &line.name);
                return self.define(4);
            }
            Item::Caller(caller) => {
                out.push(kind::CALLER);
                put(out, caller.address);
                put_text(out, &caller.path);
                put_text(out, &caller.name);
                put(out, caller.offset);
                return self.define(5);
            }
            Item::Event(Event { at, kind }) => match kind {
                EventKind::Call(call) => self.put_call(out, at, call.numbers(), call),
                EventKind::Return(back) => self.put_return(out, at, back),
                kind => self.put_event(out, at, kind),
            },
            Item::Losses(losses) => {
                out.push(kind::LOSSES);
                put(out, losses.guest.into());
                put(out, losses.records);
                put(out, losses.without_ring);
            }
            Item::End => out.push(kind::END),
        }
        0
    }

    /// Reads the next item.
    pub fn take(&mut self, take: &mut Take) -> Result<Item, Wrong> {
        loop {
            let first = take.byte()?;
            return Ok(match first & 0xf {
                kind::HEAD => Item::Head(Head {
                    lancet: take.text()?,
                    command: take.texts()?,
                    began: take.number()?,
                }),
                kind::CONTEXT => {
                    self.take_context(take)?;
                    continue;
                }
                kind::CALL => Item::Event(self.take_call(take, first)?),
                kind::RETURN => Item::Event(self.take_return(take, first)?),
                kind::LOSSES => Item::Losses(Losses {
                    guest: self.take_guest(take)?,
                    records: take.number()?,
                    without_ring: take.number()?,
                }),
                kind::EVENT => {
                    let at = At {
                        process: self.take_guest(take)?,
                        tid: take.small()?,
                        time: Duration::from_nanos(take.number()?),
                        ..At::default()
                    };
                    let kind = take_kind(take)?;
                    Item::Event(Event { at, kind })
                }
                kind::END => Item::End,
                kind => self.take_definition(kind, take)?,
            });
        }
    }

    /// Reads the number of a guest that was defined.
    fn take_guest(&self, take: &mut Take) -> Result<u32, Wrong> {
        let guest = take.small()?;
        if guest < self.counts[0] {
            Ok(guest)
        } else {
            Err(Wrong)
        }
    }

    fn take_context(&mut self, take: &mut Take) -> Result<(), Wrong> {
        let context = Context {
            guest: self.take_guest(take)?,
            tid: take.small()?,
            ring: take.small()?,
            stack: take.number()?,
        };
        self.contexts.push(context);
        Ok(())
    }

    /// Reads an item that later ones name by its number.
    fn take_definition(&mut self, kind: u8, take: &mut Take) -> Result<Item, Wrong> {
        Ok(match kind {
            kind::GUEST => {
                self.define(0);
                Item::Guest(Guest {
                    pid: take.small()? as i32,
                    command: take.texts()?,
                    vm: take.text()?,
                })
            }
            kind::MODULE => {
                self.define(1);
                Item::Module(Module {
                    path: take.text()?,
                    name: take.text()?,
                    main: take.byte()? != 0,
                    bias: take.number()?,
                })
            }
            kind::FUNCTION => {
                let module = take.small()?;
                if module >= self.counts[1] {
                    return Err(Wrong);
                }
                self.define(2);
                Item::Function(Function {
                    module,
                    names: take.texts()?,
                    address: take.number()?,
                    size: take.number()?,
                    prototype: take.text()?,
                })
            }
            kind::CALL_EDGE => {
                let (function, from) = (take.small()?, take.number()?);
                if function >= self.counts[2] || from > self.counts[1].into() {
                    return Err(Wrong);
                }
                self.define(3);
                Item::CallEdge(CallEdge {
                    function,
                    from: from.checked_sub(1).map(|number| number as u32),
                    slots: take.number()?,
                })
            }
            kind::LINE => {
                self.define(4);
                Item::Line(Line {
                    path: take.text()?,
                    line: take.small()?,
                    name: take.text()?,
                })
            }
            kind::CALLER => {
                self.define(5);
                Item::Caller(Caller {
                    address: take.number()?,
                    path: take.text()?,
                    name: take.text()?,
                    offset: take.number()?,
                })
            }
            _ => return Err(Wrong),
        })
    }
}
