// A real SMTP server on loopback that keeps the messages it receives.

import { type AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

export interface ReceivedEmail {
  readonly to: readonly string[];
  readonly subject: string;
  readonly messageId: string;
  readonly text: string;
}

export interface SmtpReceiver {
  /** With the user and password that it accepts. */
  readonly url: string;
  readonly received: readonly ReceivedEmail[];
  /** The reply to each recipient from now on; 250 accepts. */
  readonly replyWith: (code: number) => void;
  readonly stop: () => Promise<void>;
}

export async function startSmtpReceiver(): Promise<SmtpReceiver> {
  const received: ReceivedEmail[] = [];
  let replyCode = 250;
  const server = new SMTPServer({
    allowInsecureAuth: true,
    disabledCommands: ["STARTTLS"],
    onAuth: ({ username, password }, _session, done) =>
      username === "postern" && password === "p@ss"
        ? done(null, { user: username })
        : done(new Error("wrong password")),
    onRcptTo: (_address, _session, done) =>
      done(
        replyCode === 250
          ? null
          : Object.assign(new Error("not accepted"), { responseCode: replyCode }),
      ),
    onData: (stream, session, done) => {
      let raw = "";
      stream.on("data", (chunk) => {
        raw += String(chunk);
      });
      stream.on("end", () => {
        received.push(
          parseMessage(
            raw,
            session.envelope.rcptTo.map(({ address }) => address),
          ),
        );
        done();
      });
    },
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  // Safe because the server listens on a TCP port.
  const { port } = server.server.address() as AddressInfo;
  return {
    url: `smtp://postern:p%40ss@127.0.0.1:${port}`,
    received,
    replyWith: (code) => {
      replyCode = code;
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(resolve);
      }),
  };
}

function parseMessage(raw: string, to: readonly string[]): ReceivedEmail {
  const [head = "", ...body] = raw.split("\r\n\r\n");
  const header = (name: string): string => {
    const value = new RegExp(`^${name}: (.*(?:\r\n[ \t].*)*)`, "im").exec(head)?.[1] ?? "";
    return decodeWords(value.replaceAll(/\r\n[ \t]/g, " "));
  };
  return {
    to,
    subject: header("subject"),
    messageId: header("message-id"),
    text: decodeQuotedPrintable(body.join("\r\n\r\n")).replaceAll("\r\n", "\n"),
  };
}

/** RFC 2047, with Q encoding. */
function decodeWords(value: string): string {
  return value.replaceAll(/=\?UTF-8\?Q\?(.*?)\?=\s*/gi, (_, word: string) =>
    decodeQuotedPrintable(word.replaceAll("_", " ")),
  );
}

function decodeQuotedPrintable(text: string): string {
  const escaped = text
    .replaceAll(/=\r\n/g, "")
    .replaceAll("%", "%25")
    .replaceAll(/=([0-9A-F]{2})/g, "%$1");
  return decodeURIComponent(escaped);
}
