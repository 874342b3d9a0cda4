// The form that a caller wants the answer in.

type Schema = Readonly<Record<string, unknown>>;

export type OutputFormat =
  | { readonly type: "text" }
  | { readonly type: "json_object" }
  | {
      readonly type: "json_schema";
      readonly schema: Schema;
      readonly name?: string | undefined;
      readonly description?: string | undefined;
      readonly strict?: boolean | undefined;
      readonly strictPath?: string | undefined;
    };
