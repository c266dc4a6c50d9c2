//! Parameters of OAuth requests: from a query or a form, each once (RFC 6749 3.1), bounded.

use std::collections::BTreeMap;

/// Most parameters in one request.
const MOST: usize = 64;

/// Parameters by name. None has an empty value: that is as if it were absent (RFC 6749 3.1).
#[derive(Clone, Debug, Default)]
pub struct Form(BTreeMap<String, Vec<String>>);

/// Why parameters cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    #[error("a parameter stands twice")]
    Twice,
    #[error("there are more than {MOST} parameters")]
    Many,
    #[error("the body must be application/x-www-form-urlencoded")]
    Media,
}

impl Form {
    /// From `application/x-www-form-urlencoded` text. `resource` may stand several times (RFC 8707 2), nothing else.
    pub fn read(text: &[u8]) -> Result<Form, FormError> {
        let mut form = BTreeMap::<String, Vec<String>>::new();
        for (number, (name, value)) in url::form_urlencoded::parse(text).enumerate() {
            if number >= MOST {
                return Err(FormError::Many);
            }
            if value.is_empty() {
                continue;
            }
            let values = form.entry(name.into_owned()).or_default();
            if !values.is_empty() && values.len() < MOST {
                values.push(value.into_owned());
            } else {
                *values = vec![value.into_owned()];
            }
        }
        match form.iter().any(|(name, values)| values.len() > 1 && name != "resource") {
            true => Err(FormError::Twice),
            false => Ok(Form(form)),
        }
    }

    /// From a request's body, which must say that it is a form.
    pub fn of_body(map: &http::HeaderMap, body: &[u8]) -> Result<Form, FormError> {
        let media = map.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media = media.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        match media.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            true => Form::read(body),
            false => Err(FormError::Media),
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|values| values.first()).map(String::as_str)
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_stands_once_and_an_empty_one_not_at_all() {
        let form = Form::read(b"a=1&b=&c=x+y%26z&resource=u&resource=v").unwrap();
        assert_eq!((form.get("a"), form.get("b"), form.get("c")), (Some("1"), None, Some("x y&z")));
        assert_eq!(form.all("resource"), ["u", "v"]);
        assert_eq!(Form::read(b"a=1&a=1").unwrap_err(), FormError::Twice);
        assert_eq!(Form::read("a=1&".repeat(65).as_bytes()).unwrap_err(), FormError::Many);
    }
}
