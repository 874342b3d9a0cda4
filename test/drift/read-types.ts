// Reads the interfaces and type aliases of declaration files: as much of TypeScript's grammar as the SDKs' generators write.
// What it does not know, such as a function type, has the kind `other`.

export type Type =
  | { readonly kind: "literal"; readonly value: string | number | boolean | null }
  | { readonly kind: "name"; readonly name: string; readonly scope: string }
  | { readonly kind: "array"; readonly of: Type }
  | { readonly kind: "union"; readonly members: readonly Type[] }
  | { readonly kind: "all"; readonly members: readonly Type[] }
  | { readonly kind: "object"; readonly members: readonly Member[] }
  | { readonly kind: "other" };

export interface Member {
  readonly name: string;
  readonly isOptional: boolean;
  readonly type: Type;
}

/** By qualified name, such as `ResponseInputItem.Message`. */
export type Types = Map<string, Type>;

const TOKEN =
  /\s+|\/\*[\s\S]*?\*\/|\/\/[^\n]*|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|=>|\.\.\.|-?\d[\w.]*|[\w$]+|[^\s\w])/g;
const OTHER: Type = { kind: "other" };

export function readTypes(text: string, types: Types = new Map()): Types {
  const tokens = [...text.matchAll(TOKEN)].flatMap(([, token]) => token ?? []);
  new Reader(tokens, types).readBlock("");
  return types;
}

/** The type that a name means in its scope: a namespace's own, or one of the files; undefined for one of the language. */
export function resolve(
  types: Types,
  { name, scope }: { name: string; scope: string },
): Type | undefined {
  const parts = name.split(".");
  const scopes = scope.split(".");
  for (let depth = scopes.length; depth >= 0; depth--) {
    const found = types.get(
      [...scopes.slice(0, depth), name].filter((part) => part !== "").join("."),
    );
    if (found !== undefined) return found;
  }
  // Names of another file are qualified with the alias of its import.
  for (let skipped = 1; skipped < parts.length; skipped++) {
    const found = types.get(parts.slice(skipped).join("."));
    if (found !== undefined) return found;
  }
  return undefined;
}

class Reader {
  #at = 0;
  readonly #tokens: readonly string[];
  readonly #types: Types;

  constructor(tokens: readonly string[], types: Types) {
    this.#tokens = tokens;
    this.#types = types;
  }

  readBlock(scope: string): void {
    while (this.#at < this.#tokens.length && this.#next !== "}") this.#readStatement(scope);
    this.#at += 1;
  }

  get #next(): string {
    return this.#tokens[this.#at] ?? "";
  }

  #take(): string {
    const token = this.#next;
    this.#at += 1;
    return token;
  }

  #has(token: string): boolean {
    if (this.#next !== token) return false;
    this.#at += 1;
    return true;
  }

  #readStatement(scope: string): void {
    while (["export", "declare", "default"].includes(this.#next)) this.#at += 1;
    // `export { a, b };`
    if (this.#next === "{") return this.#skipStatement("");
    const word = this.#take();
    const name = [scope, this.#next].filter((part) => part !== "").join(".");
    if (word === "namespace") {
      this.#at += 1;
      if (this.#has("{")) this.readBlock(name);
    } else if (word === "interface") this.#readInterface(name, scope);
    else if (word === "enum") this.#readEnum(name);
    else if (word === "type" && this.#tokens[this.#at + 1] !== undefined)
      this.#readAlias(name, scope);
    else this.#skipStatement(word);
  }

  #readInterface(name: string, scope: string): void {
    this.#at += 1;
    if (this.#next === "<") this.#skipPair("<", ">");
    const bases: Type[] = [];
    if (this.#has("extends"))
      do bases.push(this.#readPostfix(scope));
      while (this.#has(","));
    const own = this.#readObject(name);
    this.#types.set(name, bases.length === 0 ? own : { kind: "all", members: [...bases, own] });
  }

  #readEnum(name: string): void {
    this.#at += 1;
    const members: Type[] = [];
    if (!this.#has("{")) return;
    while (this.#at < this.#tokens.length && !this.#has("}")) {
      this.#at += 1;
      if (this.#has("=")) members.push(this.#readPrimary(name));
      this.#has(",");
    }
    this.#types.set(name, { kind: "union", members });
  }

  #readAlias(name: string, scope: string): void {
    this.#at += 1;
    if (this.#next === "<") this.#skipPair("<", ">");
    if (!this.#has("=")) return;
    this.#types.set(name, this.#readType(name.includes(".") ? scope : name));
    this.#has(";");
  }

  #skipStatement(first: string): void {
    if (first === ";") return;
    while (this.#at < this.#tokens.length) {
      const token = this.#next;
      if (token === "{") {
        this.#skipPair("{", "}");
        // `import { a } from "b";` goes on after its braces.
        if (!["from", ";", ":", ",", "="].includes(this.#next)) return;
      } else {
        this.#at += 1;
        if (token === ";") return;
      }
    }
  }

  #skipPair(open: string, close: string): void {
    let depth = 0;
    do {
      const token = this.#take();
      if (token === open) depth += 1;
      if (token === close) depth -= 1;
    } while (depth > 0 && this.#at < this.#tokens.length);
  }

  #readType(scope: string): Type {
    this.#has("|");
    const members = [this.#readIntersection(scope)];
    while (this.#has("|")) members.push(this.#readIntersection(scope));
    const [only = OTHER] = members;
    const type: Type = members.length === 1 ? only : { kind: "union", members };
    if (this.#next !== "=>" && this.#next !== "extends") return type;
    this.#skipToEnd();
    return OTHER;
  }

  #readIntersection(scope: string): Type {
    this.#has("&");
    const members = [this.#readPostfix(scope)];
    while (this.#has("&")) members.push(this.#readPostfix(scope));
    const [only = OTHER] = members;
    return members.length === 1 ? only : { kind: "all", members };
  }

  #readPostfix(scope: string): Type {
    let type = this.#readPrimary(scope);
    while (this.#next === "[") {
      const isArray = this.#tokens[this.#at + 1] === "]";
      this.#skipPair("[", "]");
      type = isArray ? { kind: "array", of: type } : OTHER;
    }
    return type;
  }

  #readPrimary(scope: string): Type {
    const token = this.#next;
    if (token === "{") return this.#readObject(scope);
    if (token === "(") {
      this.#at += 1;
      const type = this.#readType(scope);
      if (this.#has(")")) return type;
      while (this.#at < this.#tokens.length && !this.#has(")")) this.#at += 1;
      return OTHER;
    }
    if (token === "[") {
      this.#skipPair("[", "]");
      return { kind: "array", of: OTHER };
    }
    this.#at += 1;
    if (/^["']/.test(token)) return { kind: "literal", value: token.slice(1, -1) };
    if (/^-?\d/.test(token)) return { kind: "literal", value: Number(token) };
    if (token === "true" || token === "false") return { kind: "literal", value: token === "true" };
    if (token === "null") return { kind: "literal", value: null };
    if (["keyof", "typeof", "readonly", "unique", "infer"].includes(token)) {
      const type = this.#readPostfix(scope);
      return token === "readonly" ? type : OTHER;
    }
    return this.#readName(token, scope);
  }

  #readName(first: string, scope: string): Type {
    let name = first;
    while (this.#has(".")) name += `.${this.#take()}`;
    if (this.#next !== "<") return { kind: "name", name, scope };
    const start = this.#at + 1;
    this.#skipPair("<", ">");
    const end = this.#at;
    if (!["Array", "ReadonlyArray", "Partial", "Readonly", "Omit"].includes(name)) return OTHER;
    this.#at = start;
    const inner = this.#readType(scope);
    this.#at = end;
    return name.endsWith("Array") ? { kind: "array", of: inner } : inner;
  }

  #readObject(scope: string): Type {
    const members: Member[] = [];
    if (!this.#has("{")) return OTHER;
    while (this.#at < this.#tokens.length && !this.#has("}")) {
      this.#has("readonly");
      if (this.#next === "[") this.#skipPair("[", "]");
      const name = this.#take().replaceAll(/^["']|["']$/g, "");
      const isOptional = this.#has("?");
      if (this.#has(":")) members.push({ name, isOptional, type: this.#readType(scope) });
      this.#skipToEnd();
      if (!this.#has(";")) this.#has(",");
    }
    return { kind: "object", members };
  }

  /** To the end of a member or alias, over what is nested in it. */
  #skipToEnd(): void {
    while (this.#at < this.#tokens.length && !/^[;,}|)]$/.test(this.#next)) {
      const pair = new Map([
        ["{", "}"],
        ["(", ")"],
        ["[", "]"],
        ["<", ">"],
      ]).get(this.#next);
      if (pair === undefined) this.#at += 1;
      else this.#skipPair(this.#next, pair);
    }
  }
}
