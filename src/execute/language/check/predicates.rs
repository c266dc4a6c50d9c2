//! Predicates: each compares a column with a value by an operator that the column's domain has.

use super::{
    super::typed::{Column as Found, Condition},
    *,
};
use crate::execute::catalog::Op;

impl Checker<'_> {
    pub(super) fn condition(&mut self, rows: &Rows, predicate: &Predicate) -> Checked<Condition> {
        match predicate {
            Predicate::Or(any) => {
                any.iter().map(|one| self.condition(rows, one)).collect::<Checked<_>>().map(Condition::Or)
            }
            Predicate::And(all) => {
                all.iter().map(|one| self.condition(rows, one)).collect::<Checked<_>>().map(Condition::And)
            }
            Predicate::Not(inside) => Ok(Condition::Not(Box::new(self.condition(rows, inside)?))),
            Predicate::Null { path, negated } => {
                Ok(Condition::Null { column: self.column(rows, path)?, negated: *negated })
            }
            Predicate::Compare { path, op, value } => self.compare(rows, path, op, value),
        }
    }

    fn compare(&mut self, rows: &Rows, path: &Path, op: &Compare, value: &Value) -> Checked<Condition> {
        let column = match self.argument(rows, path) {
            Some((column, ops)) if !ops.contains(&op.op) => {
                let shown: Vec<&str> = ops.iter().map(|op| op.text()).collect();
                let message = format!(
                    "{} can only be asked of the source with {}",
                    path.text(),
                    listed(shown.iter().copied())
                );
                let fault = self.fault(
                    Code::Operator,
                    op.span,
                    message,
                    format!("write {} {} …", path.text(), shown[0]),
                );
                drop(column);
                return Err(fault);
            }
            Some((column, _)) => column,
            None => self.column(rows, path)?,
        };
        if matches!(value.kind, ValueKind::Null) {
            return Err(self.compared_with_null(path, op, value));
        }
        let allowed = operators(&column.ty);
        if !allowed.contains(&op.op) {
            let shown: Vec<&str> = allowed.iter().map(|op| op.text()).collect();
            let kind = match &column.ty {
                Ty::Domain(domain) => domain.base.name().to_owned(),
                Ty::Ref { entity, .. } => format!("the key of a {entity}"),
            };
            let message = format!("{} is {kind}, which has no {}", path.text(), op.op.text());
            let hint = format!("its operators are {}, and is null", listed(shown));
            return Err(self.fault(Code::Operator, op.span, message, hint));
        }
        let value = if op.op == Op::In {
            self.members_of(value, &column.ty)?
        } else {
            self.value(value, &column.ty)?
        };
        Ok(Condition::Compare { column, op: op.op, value, span: path.span })
    }

    /// An argument of the query that is no field: what it takes, and how it may be compared.
    fn argument(&self, rows: &Rows, path: &Path) -> Option<(Found, Vec<Op>)> {
        let [name] = path.parts.as_slice() else { return None };
        if rows.columns.iter().any(|column| column.name == name.text) {
            return None;
        }
        let entity = rows.entity?;
        let operations = &self.scope.catalog(entity).operations;
        let arg = rows.asked.iter().find_map(|id| operations.get(id)?.args.get(&name.text))?;
        let ty = self.ty(entity, &arg.holds);
        Some((Found { path: vec![name.text.clone()], ty, only_arg: true }, arg.ops.clone()))
    }

    fn compared_with_null(&self, path: &Path, op: &Compare, value: &Value) -> Fault {
        let written = match op.op {
            Op::Eq => "is null",
            Op::Ne => "is not null",
            _ => {
                let hint = format!("write {} is null, or is not null", path.text());
                return self.fault(Code::Operator, op.span, "nothing compares with null", hint);
            }
        };
        let hint = format!("write {} {written}", path.text());
        let fault = self.fault(Code::Operator, op.span, "nothing equals null", hint);
        fault.edit(Edit::replace(op.span.to(value.span), written))
    }
}

/// What a domain's values can be compared by.
fn operators(ty: &Ty) -> &'static [Op] {
    match ty {
        Ty::Ref { .. } => &[Op::Eq, Op::Ne, Op::In],
        Ty::Domain(domain) => match domain.base {
            Base::String => &[Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Has, Op::In],
            Base::Text => &[Op::Eq, Op::Ne, Op::Has, Op::In],
            Base::Int | Base::Float | Base::Datetime | Base::Date => {
                &[Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::In]
            }
            Base::Bool => &[Op::Eq, Op::Ne],
            Base::Uuid | Base::Enum => &[Op::Eq, Op::Ne, Op::In],
            Base::Json => &[Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Has, Op::In],
            Base::Bytes => &[],
        },
    }
}
