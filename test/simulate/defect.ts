// A defect as the simulation knows it.

export interface Defect {
  /** One word, for `npm run simulate -- --defect name`. */
  readonly name: string
  /** One line: what goes wrong without what is taken out. */
  readonly what: string
  /** The world that finds it, within so many seeds. */
  readonly world: string
  readonly seeds: number
  /** The first of them, where the one that finds it is rare; 1 by default. */
  readonly from?: number
  /** How the seed fails. */
  readonly fails: RegExp
  readonly cuts: readonly Cut[]
}

export interface Cut {
  /** Path below src, without its ending. */
  readonly file: string
  /** Text of the compiled module, which has it once, and what is put in its place. */
  readonly text: string
  readonly put: string
}
