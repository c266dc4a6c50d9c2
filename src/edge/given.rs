//! What a request is answered with. Nearly always one JSON message under headers that all such answers share: that need not be
//! put together as a response, to be taken apart again where it is written.

use super::body;
use super::gate::Gate;
use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};

pub enum Given {
    /// 200, with these lines of headers and this body.
    Plain {
        lines: Bytes,
        message: Bytes,
    },
    Whole(Response<Body>),
}

impl Given {
    /// A JSON-RPC message as the whole answer.
    pub fn json(gate: &Gate, status: StatusCode, message: Bytes) -> Given {
        match status == StatusCode::OK && !gate.lifecycle.is_leaving() {
            true => Given::Plain { lines: gate.signature.lines().clone(), message },
            false => Given::Whole(body::json(gate, status, message)),
        }
    }

    /// The same as a response, for more headers to be added.
    pub fn into_response(self, gate: &Gate) -> Response<Body> {
        match self {
            Given::Plain { message, .. } => body::json(gate, StatusCode::OK, message),
            Given::Whole(response) => response,
        }
    }
}

impl From<Response<Body>> for Given {
    fn from(response: Response<Body>) -> Given {
        Given::Whole(response)
    }
}
