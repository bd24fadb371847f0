/** A transaction that a library runs a callback in, while the callback has not returned. */
export interface OpenTransaction<Tx> {
  readonly tx: Tx
  /** Why the transaction has ended before it was asked to, such as a lost connection or a limit of the library. */
  readonly lost: unknown
  /** Lets the callback return. Resolves or rejects as the library does, whose answer is that of COMMIT. */
  commit(): Promise<void>
  /** Lets the callback throw. Rejects if the library answers with another error than that one. */
  rollback(): Promise<void>
  /** Never lets the callback return. Rejects as soon as the library has given the transaction up by itself. */
  abandoned(): Promise<void>
}

/** What the callback throws for a ROLLBACK. */
class RolledBack extends Error {
  override readonly name = 'RolledBack'
}

/**
 * Opens a transaction of a library that takes a callback, and gives it back as one with a commit and a rollback. The
 * callback waits for whichever is called first.
 *
 * @param run - Calls the library with the callback.
 * @returns Rejects with the library's error if the transaction does not begin.
 */
export function openTransaction<Tx>(
  run: (callback: (tx: Tx) => Promise<void>) => PromiseLike<unknown>,
): Promise<OpenTransaction<Tx>> {
  const opened = Promise.withResolvers<OpenTransaction<Tx>>()
  const end = Promise.withResolvers<void>()
  let isAsked = false
  let lost: unknown
  const callback = (tx: Tx): Promise<void> => {
    opened.resolve({
      tx,
      get lost() {
        return lost
      },
      commit: async () => {
        isAsked = true
        end.resolve()
        await answer
      },
      rollback: async () => {
        isAsked = true
        const sentinel = new RolledBack('onceward rolls the transaction back')
        end.reject(sentinel)
        await answer.catch((error: unknown) => {
          if (!comesOf(error, sentinel)) throw error
        })
      },
      abandoned: () => answer,
    })
    return end.promise
  }
  const answer = started(run, callback)
  answer.then(
    () => {
      if (!isAsked) lost = new Error('The library ended the transaction without being asked to.')
      opened.reject(new Error('The library ended the transaction without calling its callback.'))
    },
    (error: unknown) => {
      if (!isAsked)
        lost = error ?? new Error('The library gave the transaction up without an error.')
      opened.reject(error)
    },
  )
  // A library that has given the transaction up may not look at the end of the callback.
  end.promise.catch(() => undefined)
  return opened.promise
}

/** A library may throw in place of rejecting. */
async function started<Tx>(
  run: (callback: (tx: Tx) => Promise<void>) => PromiseLike<unknown>,
  callback: (tx: Tx) => Promise<void>,
): Promise<void> {
  await run(callback)
}

const MOST_CAUSES = 5

/** Libraries put errors of the callback into errors of their own. */
function comesOf(error: unknown, sentinel: RolledBack): boolean {
  let each = error
  for (let depth = 0; depth < MOST_CAUSES; depth += 1) {
    if (each === sentinel) return true
    each = (each as { readonly cause?: unknown } | null | undefined)?.cause
  }
  return false
}
