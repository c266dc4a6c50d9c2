//! Values. A bare word is never one: a name is a binding, or an entity with its key.

use super::*;

impl Parser<'_> {
    pub(super) fn text(&mut self) -> Parsed<Text> {
        let (text, tag) = match self.tok() {
            Tok::Str(text) => (text.clone(), None),
            Tok::Heredoc { tag, text } => (text.clone(), Some(tag.clone())),
            _ => return Err(self.expected("a text")),
        };
        Ok(Text { text, tag, span: self.bump() })
    }

    pub(super) fn value(&mut self) -> Parsed<Value> {
        let start = self.span();
        let kind = match self.tok() {
            Tok::Str(_) | Tok::Heredoc { .. } => ValueKind::Text(self.text()?),
            Tok::Num(number) => {
                let number = number.clone();
                self.bump();
                ValueKind::Number(number)
            }
            Tok::Punct("[") => self.deeper(Self::list)?,
            Tok::Punct("{") => self.deeper(Self::object)?,
            Tok::Punct("<") if matches!(self.ahead(2), Tok::Punct(">")) => {
                let span = start.to(self.tokens[self.at + 2].span);
                let text = span.text(self.source);
                let message = format!("{text} is a placeholder, not a value");
                return Err(self.fault(Code::Placeholder, span, message, "replace it with the value itself"));
            }
            Tok::Name(_) => self.deeper(Self::named_value)?,
            _ => return Err(self.expected("a value")),
        };
        Ok(Value { kind, span: start.to(self.last()) })
    }

    fn list(&mut self) -> Parsed<ValueKind> {
        let open = self.bump();
        let mut items = Vec::new();
        while !self.is("]") {
            items.push(self.value()?);
            if self.take(",").is_none() && !self.is("]") {
                return Err(self.unclosed(open, "`,` or `]`"));
            }
        }
        self.bump();
        Ok(ValueKind::List(items))
    }

    fn object(&mut self) -> Parsed<ValueKind> {
        let open = self.bump();
        let mut entries = Vec::new();
        while !self.is("}") {
            let key = match self.tok() {
                Tok::Str(text) => {
                    let text = text.clone();
                    Name { text, span: self.bump() }
                }
                _ => self.name("a key")?,
            };
            if self.take(":").is_none() {
                return Err(self.expected("`:` after the key"));
            }
            entries.push((key, self.value()?));
            if self.take(",").is_none() && !self.is("}") {
                return Err(self.unclosed(open, "`,` or `}`"));
            }
        }
        self.bump();
        Ok(ValueKind::Object(entries))
    }

    fn named_value(&mut self) -> Parsed<ValueKind> {
        let Tok::Name(word) = self.tok() else { return Err(self.expected("a value")) };
        match (word.as_str(), self.next_is("(")) {
            ("null", false) => Ok(self.word(ValueKind::Null)),
            ("true", false) => Ok(self.word(ValueKind::Bool(true))),
            ("false", false) => Ok(self.word(ValueKind::Bool(false))),
            ("now", true) => self.now(),
            ("ago", true) => self.ago(),
            ("_", _) => self.cursor(),
            (_, true) => self.named().map(ValueKind::Entity),
            _ if self.next_is("::") => {
                let named = self.named()?;
                match named.args {
                    Some(_) => Ok(ValueKind::Entity(named)),
                    None => Err(self.expected("a key in parentheses")),
                }
            }
            _ => self.path("a value").map(ValueKind::Path),
        }
    }

    fn word(&mut self, kind: ValueKind) -> ValueKind {
        self.bump();
        kind
    }

    fn now(&mut self) -> Parsed<ValueKind> {
        self.bump();
        let open = self.bump();
        match self.take(")") {
            Some(_) => Ok(ValueKind::Now),
            None => Err(self.unclosed(open, "`)`: now() takes nothing")),
        }
    }

    fn ago(&mut self) -> Parsed<ValueKind> {
        self.bump();
        let open = self.bump();
        let Tok::Str(_) = self.tok() else {
            let span = self.span();
            let hint = "write ago(\"30d\"): a number and one of s, m, h, d, w";
            return Err(self.fault(Code::TypeMismatch, span, "ago takes a span of time in quotes", hint));
        };
        let text = self.text()?;
        match self.take(")") {
            Some(_) => Ok(ValueKind::Ago(text)),
            None => Err(self.unclosed(open, "`)`")),
        }
    }

    fn cursor(&mut self) -> Parsed<ValueKind> {
        if !self.in_effect {
            return Err(self.cursor_outside());
        }
        self.bump();
        let mut parts = Vec::new();
        while self.take(".").is_some() {
            parts.push(self.name("a field of the row")?);
        }
        Ok(ValueKind::Cursor(parts))
    }
}
