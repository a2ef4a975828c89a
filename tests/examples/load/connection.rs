//! An HTTP client that takes little CPU time, because it shares the machine with the server.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// A connection that is kept open. It is opened again where the server has closed it.
pub(crate) struct Connection {
    host: String,
    stream: Option<BufReader<TcpStream>>,
    pub(crate) body: Vec<u8>,
}

/// A request.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// The tag of the answer that the client has already.
    pub(crate) tag: Option<String>,
}

impl Request {
    pub(crate) fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), tag: None }
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) tag: Option<String>,
}

impl Connection {
    /// `url` has no path.
    pub(crate) fn new(url: &str) -> Self {
        Self { host: url.trim_start_matches("http://").to_owned(), stream: None, body: Vec::new() }
    }

    /// Sends a request, and waits until the whole answer is in `body`.
    pub(crate) fn get(&mut self, request: &Request) -> io::Result<Answer> {
        if let Some(stream) = self.stream.take()
            && let Ok(answer) = self.exchange(stream, request)
        {
            return Ok(answer);
        }
        let stream = TcpStream::connect(&self.host)?;
        stream.set_nodelay(true)?;
        self.exchange(BufReader::with_capacity(1 << 16, stream), request)
    }

    fn exchange(&mut self, mut stream: BufReader<TcpStream>, request: &Request) -> io::Result<Answer> {
        let condition = request.tag.as_ref().map(|tag| format!("if-none-match: {tag}\r\n"));
        let text = format!(
            "GET {} HTTP/1.1\r\nhost: {}\r\n{}\r\n",
            request.path,
            self.host,
            condition.unwrap_or_default()
        );
        stream.get_mut().write_all(text.as_bytes())?;
        let head = Head::read(&mut stream)?;
        self.body.clear();
        // All requests are for JSON, which the server sends with its length.
        stream.by_ref().take(head.length).read_to_end(&mut self.body)?;
        if self.body.len() as u64 != head.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.stream = Some(stream);
        Ok(Answer { status: head.status, tag: head.tag })
    }
}

struct Head {
    status: u16,
    length: u64,
    tag: Option<String>,
}

impl Head {
    fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Self> {
        let invalid = |line: &str| io::Error::new(io::ErrorKind::InvalidData, line.to_owned());
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut head = Self { status: status.ok_or_else(|| invalid(&line))?, length: 0, tag: None };
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else { return Ok(head) };
            match name {
                "content-length" => head.length = value.parse().map_err(|_| invalid(&line))?,
                "transfer-encoding" => return Err(invalid(&line)),
                "etag" => head.tag = Some(value.to_owned()),
                _ => {}
            }
        }
    }
}
