// The part of WebAssembly that this room uses. Thread: any (types only).
// The compiler's library names it only together with a browser's world, which we do not have.

declare namespace WebAssembly {
  class Memory {
    constructor(options: { initial: number; maximum: number; shared: true })
    readonly buffer: SharedArrayBuffer
  }
  class Module {
    constructor(bytes: Uint8Array)
  }
  class Instance {
    constructor(module: Module, imports: Record<string, Record<string, unknown>>)
    readonly exports: Record<string, unknown>
  }
}
