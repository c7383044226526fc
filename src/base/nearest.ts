// Finds the known word nearest to a mistyped one (Damerau-Levenshtein distance).
// For error messages about an operator's spelling: configuration keys, verbs, flags, labels.

/** The candidate with the fewest edits from `word`; null when each needs more than `editsMax`. */
export function nearest(
  word: string,
  candidates: Iterable<string>,
  editsMax = Number.POSITIVE_INFINITY,
): string | null {
  const wanted = word.toLowerCase()
  let best: string | null = null
  let bestEdits = editsMax + 1
  for (const candidate of candidates) {
    const edits = editDistance(wanted, candidate.toLowerCase())
    if (edits >= bestEdits) continue
    best = candidate
    bestEdits = edits
  }
  return best
}

/** Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. */
export function editDistance(a: string, b: string): number {
  let twoUp: number[] = []
  let up = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      let edits = Math.min(
        up[column]! + 1,
        current[column - 1]! + 1,
        up[column - 1]! + (same ? 0 : 1),
      )
      const swapped =
        row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) edits = Math.min(edits, twoUp[column - 2]! + 1)
      current.push(edits)
    }
    twoUp = up
    up = current
  }
  return up[b.length]!
}
