//! Values, held against what takes them. A bare word is never one.

use serde_json::Value as Json;

use super::{super::typed::Given, heads::Found, keys::did, *};
use crate::execute::{instant, names};

impl Checker<'_> {
    pub(super) fn value(&mut self, value: &Value, ty: &Ty) -> Checked<Given> {
        match &value.kind {
            ValueKind::Path(path) => self.named_value(path, ty),
            ValueKind::Cursor(parts) => self.cursor_value(value, parts, ty),
            ValueKind::Entity(named) => self.identity(value, named, ty),
            ValueKind::Now => self.time(value, ty, 0),
            ValueKind::Ago(text) => match instant::span(&text.text) {
                Some(before) => self.time(value, ty, before),
                None => {
                    let message = format!("{:?} is no span of time", text.text);
                    let hint = "write a number and one of s, m, h, d, w, as in ago(\"30d\")";
                    Err(self.fault(Code::TypeMismatch, text.span, message, hint))
                }
            },
            ValueKind::Null | ValueKind::Bool(_) | ValueKind::Number(_) | ValueKind::Text(_) => {
                self.literal(value, ty)
            }
            ValueKind::List(items) if is_json(ty) => {
                items.iter().map(|item| self.value(item, ty)).collect::<Checked<_>>().map(Given::List)
            }
            ValueKind::Object(entries) if is_json(ty) => entries
                .iter()
                .map(|(key, value)| Ok((key.text.clone(), self.value(value, ty)?)))
                .collect::<Checked<_>>()
                .map(Given::Object),
            ValueKind::List(_) | ValueKind::Object(_) => Err(self.mismatch(value, ty)),
        }
    }

    /// The list of `in`.
    pub(super) fn members_of(&mut self, value: &Value, ty: &Ty) -> Checked<Given> {
        match &value.kind {
            ValueKind::List(items) => {
                items.iter().map(|item| self.value(item, ty)).collect::<Checked<_>>().map(Given::List)
            }
            // What else is wrong with it is said first.
            _ => {
                self.value(value, ty)?;
                let hint = format!("write in [{}]", value.span.text(self.source));
                let fault = self.fault(Code::TypeMismatch, value.span, "`in` takes a list", hint);
                Err(fault.edit(Edit::insert(value.span.start, "[")).edit(Edit::insert(value.span.end, "]")))
            }
        }
    }

    /// A binding, or a field of its one row.
    fn named_value(&mut self, path: &Path, ty: &Ty) -> Checked<Given> {
        let first = &path.parts[0];
        let Some(index) = self.binding(&first.text) else { return Err(self.bare_word(path, ty)) };
        let rows = match &self.bound[index].rhs.shape {
            Shape::Text => {
                let text = Ty::Domain(Domain::of(Base::Text));
                return match (path.parts.as_slice(), fits(&text, ty)) {
                    ([_], true) => Ok(Given::Binding { index, path: Vec::new() }),
                    _ => Err(self.wrong_kind(path.span, "a text", ty)),
                };
            }
            Shape::Rows(rows) => rows.clone(),
        };
        if !rows.one {
            let message = format!("{} is many rows, and a value is one", first.text);
            let hint = format!("make it one row with {} | singleton(), or name one by its key", first.text);
            return Err(self.fault(Code::ManyInValue, path.span, message, hint));
        }
        let rest = Path { parts: path.parts[1..].to_vec(), span: path.span };
        let path_in = self.field_of(&rows, &rest, path.span, &first.text, ty)?;
        Ok(Given::Binding { index, path: path_in })
    }

    fn cursor_value(&mut self, value: &Value, parts: &[Name], ty: &Ty) -> Checked<Given> {
        let Some(rows) = self.cursor.clone() else {
            let hint = "_ is the row of rows => _.method(…)";
            return Err(self.fault(Code::CursorOutside, value.span, "_ means nothing outside of `=>`", hint));
        };
        let path = Path { parts: parts.to_vec(), span: value.span };
        self.field_of(&rows, &path, value.span, "_", ty).map(Given::Cursor)
    }

    /// The path of a field of one row; empty for its identity.
    fn field_of(&self, rows: &Rows, path: &Path, span: Span, row: &str, ty: &Ty) -> Checked<Vec<String>> {
        if path.parts.is_empty() {
            let Some(entity) = rows.entity else { return Err(self.no_identity(span)) };
            let seed = self.scope.seed(entity);
            let own = Ty::Ref { api: seed.api.clone(), entity: seed.entity.clone() };
            if fits(&own, ty) {
                return Ok(Vec::new());
            }
            let fault = self.wrong_kind(span, &format!("a row of {}", seed.entity), ty);
            let field = rows.columns.iter().find(|column| fits(&column.ty, ty));
            return Err(match field {
                Some(field) => fault.edit(Edit::replace(span, format!("{row}.{}", field.name))),
                None => fault,
            });
        }
        let found = self.column(rows, path)?;
        if fits(&found.ty, ty) {
            return Ok(found.path);
        }
        Err(self.wrong_kind(span, &format!("{} {}", path.text(), described(&found.ty)), ty))
    }

    /// `Type("x")` as a value.
    fn identity(&mut self, value: &Value, named: &Named, ty: &Ty) -> Checked<Given> {
        let written = &named.name.text;
        if self.binding(written).is_none()
            && !self.scope.ids().any(|id| self.scope.name(id) == written)
            && written.starts_with(|c: char| c.is_lowercase())
            && names::symbol_kind(written).is_none()
            && named.api.is_none()
        {
            let message = format!("there is no function {written}");
            let hint = format!("there are now() and ago(\"30d\"); {} is expected", self.example(ty));
            return Err(self.fault(Code::TypeMismatch, named.span, message, hint));
        }
        let entity = match self.resolve(named)? {
            Found::Entity(entity) => entity,
            Found::Binding(_) => {
                let message = format!("{written} is a binding, and a binding is not called");
                let fault = self.fault(Code::BindingCalled, named.span, message, format!("write {written}"));
                return Err(match &named.args {
                    Some(args) => fault.edit(Edit::delete(args.span)),
                    None => fault,
                });
            }
        };
        let seed = self.scope.seed(entity);
        let own = Ty::Ref { api: seed.api.clone(), entity: seed.entity.clone() };
        if !fits(&own, ty) {
            return Err(self.wrong_kind(value.span, &format!("a row of {}", self.scope.name(entity)), ty));
        }
        let key = match &named.args {
            Some(args) => self.key(entity, named, args, None)?,
            None => Vec::new(),
        };
        Ok(Given::Identity { entity, key })
    }

    fn time(&self, value: &Value, ty: &Ty, before: u64) -> Checked<Given> {
        match ty {
            Ty::Domain(domain) if matches!(domain.base, Base::Datetime | Base::Date | Base::Json) => {
                Ok(Given::Now { before })
            }
            _ => Err(self.wrong_kind(value.span, "an instant", ty)),
        }
    }

    fn bare_word(&self, path: &Path, ty: &Ty) -> Fault {
        let (text, span) = (path.text(), path.span);
        if let Some(id) = self.scope.ids().find(|id| self.scope.name(*id) == text) {
            let message = format!("{text} is all of its rows, and a value is one");
            let hint = format!("write {}", self.key_skeleton(&text, &self.key_names(id)));
            return self.fault(Code::ManyInValue, span, message, hint);
        }
        let near = did(&path.parts[0].text, self.bound.iter().map(|bound| bound.label.as_str()));
        let message = format!("{text} is a bare word, which is never a value");
        let written = match ty {
            Ty::Ref { entity, .. } => format!("{entity}({text:?})"),
            _ => format!("{text:?}"),
        };
        let hint = format!("{near}text stands in quotes: {written}");
        let fault = self.fault(Code::BareWord, span, message, hint);
        fault.edit(Edit::replace(span, written))
    }

    /// A number, a text, true, false or null.
    fn literal(&self, value: &Value, ty: &Ty) -> Checked<Given> {
        let Ty::Domain(domain) = ty else { return self.literal_key(value, ty) };
        let given = match (&value.kind, domain.base) {
            (ValueKind::Null, Base::Json) => Json::Null,
            (ValueKind::Bool(value), Base::Bool | Base::Json) => Json::from(*value),
            (ValueKind::Number(number), Base::Float | Base::Json) => Json::Number(number.clone()),
            (ValueKind::Number(number), Base::Int) if number.is_i64() || number.is_u64() => {
                Json::Number(number.clone())
            }
            (ValueKind::Text(text), Base::Json | Base::String | Base::Text | Base::Bytes) => {
                Json::from(text.text.as_str())
            }
            (ValueKind::Text(text), Base::Enum) => {
                if !domain.values.contains(&text.text) {
                    return Err(self.no_member(text, domain));
                }
                Json::from(text.text.as_str())
            }
            (ValueKind::Text(text), Base::Uuid) if is_uuid(&text.text) => {
                Json::from(text.text.to_ascii_lowercase())
            }
            (ValueKind::Text(text), Base::Date) if instant::is_day(&text.text) => {
                Json::from(text.text.as_str())
            }
            (ValueKind::Text(text), Base::Datetime) => match instant::Instant::parse(&text.text) {
                Some(instant) => Json::from(instant.rfc3339()),
                None => return Err(self.mismatch(value, ty)),
            },
            _ => return Err(self.mismatch(value, ty)),
        };
        self.bounds(value, &given, domain)?;
        Ok(Given::Json(given))
    }

    /// A key in place of an identity, where the key has one part.
    fn literal_key(&self, value: &Value, ty: &Ty) -> Checked<Given> {
        match &value.kind {
            ValueKind::Text(text) => Ok(Given::Json(Json::from(text.text.as_str()))),
            ValueKind::Number(number) => Ok(Given::Json(Json::Number(number.clone()))),
            _ => Err(self.mismatch(value, ty)),
        }
    }

    fn bounds(&self, value: &Value, given: &Json, domain: &Domain) -> Checked<()> {
        let number = given.as_f64();
        let length = given.as_str().map(|text| text.chars().count() as u64);
        let over = match (number, length) {
            (Some(number), _) if domain.min.is_some_and(|min| number < min) => {
                domain.min.map(|min| format!("at least {min}"))
            }
            (Some(number), _) if domain.max.is_some_and(|max| number > max) => {
                domain.max.map(|max| format!("at most {max}"))
            }
            (_, Some(length)) if domain.max_len.is_some_and(|most| length > most) => {
                domain.max_len.map(|most| format!("at most {most} characters"))
            }
            _ => None,
        };
        match over {
            Some(allowed) => {
                let message = "the value is out of its bounds";
                Err(self.fault(Code::TypeMismatch, value.span, message, format!("it may be {allowed}")))
            }
            None => Ok(()),
        }
    }

    fn no_member(&self, text: &Text, domain: &Domain) -> Fault {
        let known = domain.values.iter().map(String::as_str);
        let message = format!("{:?} is not among the values", text.text);
        let hint = format!("{}the values are {}", did(&text.text, known.clone()), listed(known.clone()));
        let fault = self.fault(Code::EnumValue, text.span, message, hint);
        match names::nearest(&text.text, known) {
            Some(near) => fault.edit(Edit::replace(text.span, Json::from(near).to_string())),
            None => fault,
        }
    }

    fn mismatch(&self, value: &Value, ty: &Ty) -> Fault {
        let written = value.span.text(self.source);
        let what = match &value.kind {
            ValueKind::Null => "null",
            ValueKind::Bool(_) => "true or false",
            ValueKind::Number(_) => "a number",
            ValueKind::List(_) => "a list",
            ValueKind::Object(_) => "an object",
            _ => "this text",
        };
        let fault = self.wrong_kind(value.span, what, ty);
        let Ty::Domain(domain) = ty else { return fault };
        match (&value.kind, domain.base) {
            (ValueKind::Number(_) | ValueKind::Bool(_), Base::String | Base::Text) => {
                fault.edit(Edit::replace(value.span, format!("\"{written}\"")))
            }
            (ValueKind::Text(text), Base::Int | Base::Float | Base::Bool) => {
                fault.edit(Edit::replace(value.span, text.text.trim()))
            }
            (ValueKind::List(items), _) if items.len() == 1 => {
                fault.edit(Edit::replace(value.span, items[0].span.text(self.source)))
            }
            _ => fault,
        }
    }

    fn wrong_kind(&self, span: Span, found: &str, ty: &Ty) -> Fault {
        let message = format!("{found} does not fit: expected {}", described(ty));
        self.fault(Code::TypeMismatch, span, message, format!("write a value such as {}", self.example(ty)))
    }
}

fn is_json(ty: &Ty) -> bool {
    matches!(ty, Ty::Domain(domain) if domain.base == Base::Json)
}

/// Whether what holds the one can be given to what takes the other.
fn fits(given: &Ty, wanted: &Ty) -> bool {
    let is_text = |base: Base| matches!(base, Base::String | Base::Text | Base::Uuid | Base::Enum);
    match (given, wanted) {
        (_, Ty::Domain(wanted)) if wanted.base == Base::Json => true,
        (Ty::Domain(given), _) if given.base == Base::Json => true,
        (Ty::Ref { .. }, Ty::Ref { .. }) => given == wanted,
        // A key in place of an identity.
        (Ty::Domain(given), Ty::Ref { .. }) => matches!(given.base, Base::String | Base::Int | Base::Uuid),
        (Ty::Ref { .. }, Ty::Domain(_)) => false,
        (Ty::Domain(given), Ty::Domain(wanted)) => match (given.base, wanted.base) {
            (Base::Enum, Base::Enum) => given.values == wanted.values,
            (given, Base::String | Base::Text) => is_text(given),
            (Base::Int, Base::Float) => true,
            (Base::Date, Base::Datetime) => true,
            (given, wanted) => given == wanted,
        },
    }
}

fn described(ty: &Ty) -> String {
    match ty {
        Ty::Ref { entity, .. } => format!("a {entity}: its key, or one row of it"),
        Ty::Domain(domain) => match domain.base {
            Base::String | Base::Text => "text".to_owned(),
            Base::Int => "a whole number".to_owned(),
            Base::Float => "a number".to_owned(),
            Base::Bool => "true or false".to_owned(),
            Base::Datetime => "an instant, as in \"2026-11-30T12:00:00Z\" or ago(\"30d\")".to_owned(),
            Base::Date => "a day, as in \"2026-11-30\"".to_owned(),
            Base::Uuid => "a UUID".to_owned(),
            Base::Bytes => "base64".to_owned(),
            Base::Json => "anything".to_owned(),
            Base::Enum => format!("one of {}", listed(domain.values.iter().map(String::as_str))),
        },
    }
}

pub(in crate::execute) fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
