/** A request that a wire cannot read or write. `path` names the field at fault: `messages[3].content`. */
export class InvalidRequest extends Error {
  override readonly name = "InvalidRequest";
  readonly path: string | undefined;

  constructor(path: string | undefined, message: string) {
    super(message);
    this.path = path;
  }
}

export function invalid(path: string | undefined, message: string): InvalidRequest {
  return new InvalidRequest(path, message);
}
