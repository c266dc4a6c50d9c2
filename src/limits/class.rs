//! What a request does, as far as limits care.

use crate::wire::Method;

/// The class of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A tool is called; or something that is not known here, and may do anything.
    Call,
    /// Something is read by its name.
    Read,
    /// Something is listed.
    List,
    /// All that keeps the conversation going.
    Control,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Call, Class::Read, Class::List, Class::Control];

    pub fn of(method: &Method) -> Class {
        use Method::*;
        match method {
            ToolsCall | Other(_) => Class::Call,
            ResourcesRead | PromptsGet | Complete | TasksGet | TasksResult | TasksUpdate => Class::Read,
            Discover | ToolsList | PromptsList | ResourcesList | TemplatesList | TasksList => Class::List,
            _ => Class::Control,
        }
    }

    /// For metrics and policies.
    pub fn word(self) -> &'static str {
        match self {
            Class::Call => "call",
            Class::Read => "read",
            Class::List => "list",
            Class::Control => "control",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// How many requests of each class are asked for at once: one, or those of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked([u32; 4]);

impl Asked {
    pub fn one(class: Class) -> Asked {
        let mut asked = Asked::default();
        asked.add(class);
        asked
    }

    pub fn add(&mut self, class: Class) {
        self.0[class.index()] = self.0[class.index()].saturating_add(1);
    }

    /// And what the other asks for.
    pub fn join(&mut self, other: Asked) {
        for (sum, n) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(n);
        }
    }

    pub fn of(&self, class: Class) -> u32 {
        self.0[class.index()]
    }

    pub fn total(&self) -> u32 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// The class that most of it is of.
    pub(super) fn chiefly(&self) -> Class {
        Class::ALL.into_iter().rev().max_by_key(|class| self.of(*class)).unwrap_or(Class::Call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_that_is_not_known_counts_as_a_call() {
        assert_eq!(Class::of(&Method::parse("x/y")), Class::Call);
        assert_eq!(Class::of(&Method::parse("tools/list")), Class::List);
        assert_eq!(Class::of(&Method::parse("ping")), Class::Control);
        let mut asked = Asked::one(Class::List);
        asked.add(Class::Call);
        asked.add(Class::Call);
        assert_eq!((asked.total(), asked.chiefly()), (3, Class::Call));
    }
}
