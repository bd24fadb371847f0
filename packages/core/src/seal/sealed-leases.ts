import type { Json } from '../model/brands.ts'
import { StoreUnavailableError } from '../model/errors.ts'
import type { LeaseSession, WriteMarks } from '../model/lease-store.ts'
import { fromJsonText, toJsonText } from '../support/json-text.ts'
import { isSealedResult } from '../support/sealed-result.ts'
import { type Sealer, sealResult } from './sealer.ts'

/** A lease store that gets sealed results. What it answers is opened at the end of the event, as what an inbox answers. */
export function sealedLeases(session: LeaseSession, sealer: Sealer): LeaseSession {
  const sealed = async <Done extends { readonly result?: Json | undefined }>(
    done: readonly Done[],
  ): Promise<readonly Done[]> => {
    try {
      return await Promise.all(done.map((each) => withSealedResult(sealer, each)))
    } catch (cause) {
      // The effect has happened: the end is sent again, as one that the store has not answered.
      throw new StoreUnavailableError('The end of a run is not stored yet.', { cause })
    }
  }
  const complete: LeaseSession['complete'] = async (done, rememberMs) =>
    session.complete(await sealed(done), rememberMs)
  const written = new WeakMap<WriteMarks, WriteMarks>()
  // One function for each history: marks are written together by it.
  const marks = (): WriteMarks | undefined => {
    const write = session.marks?.()
    if (write === undefined) return undefined
    const known = written.get(write)
    if (known !== undefined) return known
    const made: WriteMarks = async (done, rememberMs) => write(await sealed(done), rememberMs)
    written.set(write, made)
    return made
  }
  return {
    claim: (claims) => session.claim(claims),
    renew: (held, leaseMs) => session.renew(held, leaseMs),
    fail: (failed) => session.fail(failed),
    release: (held) => session.release(held),
    bury: (dead, rememberMs) => session.bury(dead, rememberMs),
    complete,
    ...(session.marks === undefined ? {} : { marks }),
  }
}

async function withSealedResult<Done extends { readonly result?: Json | undefined }>(
  sealer: Sealer,
  done: Done,
): Promise<Done> {
  const { result } = done
  // A result that was read sealed from one store is written sealed to the other.
  if (result === undefined || isSealedResult(result)) return done
  const text = await sealResult(sealer, toJsonText(result))
  return { ...done, result: fromJsonText(text) as Json }
}
