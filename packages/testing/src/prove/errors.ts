/** The proof cannot be run: its file, its servers or its options are wrong. The message says what to do. */
export class ProofError extends Error {
  override readonly name = 'ProofError'
}

export const textOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
