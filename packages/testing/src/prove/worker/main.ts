/*
 * The process that `prove` starts for the user's file. As `worker` it consumes, and is killed; as `author` it makes events and
 * counts effects. It talks to its parent over IPC, and ends with it.
 */
import { existsSync, readFileSync } from 'node:fs'
import { flushCompileCache } from 'node:module'
import { join } from 'node:path'
import type { Consumption } from '@onceward/core'
import { textOf } from '../errors.ts'
import { acksOf } from '../places/acks.ts'
import type { Proof } from '../proof.ts'
import {
  type EventToSend,
  type FromProcess,
  IDENTITIES_FILE,
  type ProcessSettings,
  type Question,
  SETTINGS_VARIABLE,
  type ToProcess,
} from '../protocol.ts'
import { loadProof } from './load-proof.ts'
import { Recognized } from './recognized.ts'
import { Strike } from './strike.ts'
import { watchPoints } from './watch-points.ts'

const { env, file, folder, role } = JSON.parse(
  process.env[SETTINGS_VARIABLE] ?? '{}',
) as ProcessSettings

const say = (message: FromProcess): void => {
  if (process.connected) process.send?.(message, () => undefined)
}

/** Ends the process once the parent has the reason. */
function fail(stage: string, error: unknown): void {
  const text =
    error instanceof Error && stage !== 'load' ? (error.stack ?? error.message) : textOf(error)
  process.send?.({ kind: 'failed', stage, text } satisfies FromProcess, () => process.exit(1))
}

process.on('disconnect', () => process.exit())
// It would end the process, as it ends one in production; the proof goes on and reports it.
process.on('unhandledRejection', (error) => {
  say({
    kind: 'unawaited',
    text: error instanceof Error ? (error.stack ?? error.message) : String(error),
  })
})

const strike = new Strike(folder)
const identities = join(folder, IDENTITIES_FILE)
if (role === 'worker') {
  const entries = existsSync(identities) ? JSON.parse(readFileSync(identities, 'utf8')) : []
  watchPoints({ strike, recognized: new Recognized(entries), isAck: acksOf(env.broker) })
}

let consumption: Consumption | undefined

async function consume(proof: Proof): Promise<void> {
  const started: unknown = await proof.start(env)
  if (typeof started !== 'object' || started === null || !('drain' in started)) {
    throw new Error(
      'start() resolved with no Consumption. Return what consumeSqs, consumeKafka, … resolve with.',
    )
  }
  consumption = started as Consumption
  void Promise.resolve(consumption.stopped).catch((error: unknown) => fail('consume', error))
}

async function answerTo(question: Question, proof: Proof): Promise<unknown> {
  switch (question.kind) {
    case 'events':
      return eventsOf(proof, question.count)
    case 'setup':
      return proof.setup?.(env)
    case 'count':
      return proof.count(env)
    case 'teardown':
      return proof.teardown?.(env)
    default:
      return question satisfies never
  }
}

async function eventsOf(proof: Proof, count: number): Promise<readonly EventToSend[]> {
  const events: EventToSend[] = []
  for (let n = 1; n <= count; n += 1) {
    const body: string | undefined = JSON.stringify(await proof.event(n))
    if (body === undefined)
      throw new Error(`event(${n}) returned no JSON value. Return the body of the event.`)
    events.push({ body, headers: { ...(await proof.headers?.(n)) } })
  }
  return events
}

async function answer(id: number, question: Question, proof: Proof): Promise<void> {
  try {
    say({ kind: 'answer', id, value: await answerTo(question, proof) })
  } catch (error) {
    say({
      kind: 'refused',
      id,
      text: error instanceof Error ? (error.stack ?? error.message) : String(error),
    })
  }
}

/** A rejection ends the process with an exit code, which the parent reports. */
function hear(message: ToProcess, proof: Proof): void {
  switch (message.kind) {
    case 'ask':
      void answer(message.id, message.question, proof)
      break
    case 'arm':
      strike.arm(message.blow)
      break
    case 'ask-health':
      say({ kind: 'health', inFlight: consumption?.health?.().inFlight })
      break
    case 'drain':
      void Promise.resolve(consumption?.drain()).finally(() => process.exit(0))
      break
    default:
      message satisfies never
  }
}

let stage = 'load'
try {
  const proof = await loadProof(file)
  process.on('message', (message: ToProcess) => hear(message, proof))
  stage = 'start'
  if (role === 'worker') await consume(proof)
  say({ kind: 'ready' })
  // A killed process cannot write the cache at its end.
  flushCompileCache()
} catch (error) {
  fail(stage, error)
}
