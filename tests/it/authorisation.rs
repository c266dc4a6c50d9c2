//! Our own authorisation server: logins as clients do them, through a provider and the consent page, on one pod and on three;
//! and those who try to get in by them.

mod attacks;
mod clients;
mod documents;
mod people;
mod refresh;
pub mod site;
