// Keeps the process alive when LMDB cannot commit, as on a full disk. Thread: main of the devnode.
// Besides the promises that it returns, lmdb then rejects some of its own, out of reach; an
// unhandled rejection ends a process. The archive learns of the failure by the promises it has.

/** Ignores rejections of failed commits; every other one is thrown, as without a listener. */
export function ignoreCommitRejections(): () => void {
  process.on('unhandledRejection', onRejection)
  return () => process.off('unhandledRejection', onRejection)
}

function onRejection(error: unknown): void {
  if (!isOfCommit(error)) throw error
}

function isOfCommit(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return 'commitError' in error || (error.stack?.includes('/lmdb/write.js') ?? false)
}
