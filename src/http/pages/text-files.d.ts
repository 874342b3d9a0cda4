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
