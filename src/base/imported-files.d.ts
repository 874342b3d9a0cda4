// Files that are imported as text or as the path of an asset.

declare module "*.css" {
  const text: string;
  export default text;
}

declare module "*.jsonl" {
  const text: string;
  export default text;
}

declare module "*.sql" {
  const text: string;
  export default text;
}

declare module "*.md" {
  const text: string;
  export default text;
}

declare module "*.webp" {
  const path: string;
  export default path;
}

declare module "*.png" {
  const path: string;
  export default path;
}

declare module "markdown-it/browser" {
  const path: string;
  export default path;
}

declare module "*.ttf" {
  const path: string;
  export default path;
}
