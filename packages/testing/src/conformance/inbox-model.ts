import { memoryInbox } from '@onceward/core/memory'
import { type InboxSession, type Runtime, systemRuntime } from '@onceward/core/ports'
import fc from 'fast-check'
import { it } from 'vitest'
import { type Step, stories } from './inbox-model-steps.ts'
import { type Pair, Told, type ToldRules } from './inbox-model-told.ts'
import { type InboxUnderTest, registration, strangeToken } from './inbox-under-test.ts'

/** The size of the property test. */
export interface InboxModelSize {
  readonly runs: number
  /** Most steps in a run. A step is a statement over one to three events, or passing time. */
  readonly steps: number
  /** Resolves when no transaction is open: a claim that took nothing is rolled back without being waited for. */
  readonly quiet: () => Promise<unknown>
  /** The inbox forgets events at the end of their window, without a sweep. */
  readonly forgetsByItself?: boolean | undefined
}

const EVENTS = 3

/**
 * Sends random statements to an inbox and to the memory inbox, which the deterministic simulation runs on; both must
 * answer the same. A difference is shrunk to the shortest sequence of statements.
 *
 * @param subject - Is used by all runs, each as a consumer of its own.
 */
export function inboxModel(
  name: string,
  subject: () => InboxUnderTest<unknown>,
  { forgetsByItself = false, quiet, runs, steps }: InboxModelSize,
): void {
  it(`${name} answers random statements as the memory inbox does`, async () => {
    const property = fc.asyncProperty(stories(EVENTS, steps), (story) =>
      tell(subject(), story, { forgetsByItself, quiet }),
    )
    await fc.assert(property, { numRuns: runs })
  }, 600_000)
}

async function tell(
  subject: InboxUnderTest<unknown>,
  story: readonly Step[],
  rules: Pick<ToldRules, 'forgetsByItself' | 'quiet'>,
): Promise<void> {
  const model = memory()
  const consumer = `model ${strangeToken()}`
  const sessions = await Promise.all(
    [subject, model].map(({ inbox, runtime }) => inbox.open(registration(runtime, { consumer }))),
  )
  const [its, mine] = sessions as unknown as Pair<InboxSession<unknown>>
  const told = new Told([subject, model], [its, mine], { events: EVENTS, ...rules })
  try {
    for (const step of story) await told.tell(step)
  } finally {
    await told.end('rollback')
  }
}

function memory(): InboxUnderTest<unknown> {
  const inbox = memoryInbox()
  let passedMs = 0
  const runtime: Runtime = {
    ...systemRuntime,
    monotonic: () => systemRuntime.monotonic() + passedMs,
  }
  return {
    ...{ inbox, runtime },
    pass: async (ms) => {
      passedMs += ms
    },
    replay: async (ref) => void inbox.replay(ref),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}
