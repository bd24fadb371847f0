/** One thing that happened: something goes from one place to another, or happens at one. */
export interface Row {
  readonly from: string
  readonly to: string
  readonly text: string
  readonly look: '' | 'answer' | 'bad' | 'good'
}

export interface Told {
  readonly ms: number
  readonly row: Row
}

interface Step {
  readonly ms: number
  readonly actor: string
  readonly what: string
}

export const BROKER = 'broker'
export const POSTGRES = 'Postgres'

const workerOf = (actor: string): string => `worker ${Number(/^P(\d+)/.exec(actor)?.[1]) + 1}`

/** The arrows of the requests, and of the answers that say something. */
const ARROWS: Readonly<Record<string, readonly [to: string, text: string]>> = {
  'begin>': [POSTGRES, 'BEGIN, insert the event’s row'],
  'look>': [POSTGRES, 'select: is there a charge?'],
  'write>': [POSTGRES, 'insert the charge'],
  'commit>': [POSTGRES, 'COMMIT'],
  'suspect>': [POSTGRES, 'redelivered: count the attempt'],
  'classify>': [POSTGRES, 'is the event done?'],
  'abandon>': [BROKER, 'leave the message to the broker'],
  'defer>': [BROKER, 'deliver it later'],
  'ack>': [BROKER, 'ack'],
}
const ANSWERS: Readonly<Record<string, readonly [text: string, look: Row['look']]>> = {
  'commit<': ['committed', 'answer'],
  'commit cut!': ['the answer is lost', 'bad'],
  'classify<': ['done, with its charge', 'answer'],
}
const REMARKS: Readonly<Record<string, string>> = {
  'commit-unknown': 'committed or not? Ask again later.',
  'store-down': 'Postgres is down: nothing starts',
  'in-progress': 'another worker has the row',
}
/** By the kind of fault; of what is struck, the place. */
const FAULTS: Readonly<Record<string, (struck: string) => Pick<Row, 'to' | 'text'>>> = {
  crash: (struck) => ({ to: workerOf(struck), text: 'killed' }),
  freeze: (struck) => ({ to: workerOf(struck), text: 'frozen' }),
  'pg-restart': () => ({ to: POSTGRES, text: 'restarts; what is committed stays' }),
}

/** What a trace of the simulation says to those who read it; what they need not know is left out. */
export function tell(trace: readonly string[]): readonly Told[] {
  const steps = trace.map((line): Step => {
    const [, ms, actor = '', what = ''] = /^\d+ (\d+)ms (\S+) (.*)$/.exec(line) ?? []
    return { ms: Number(ms), actor, what }
  })
  return steps.flatMap((step, at): readonly Told[] => {
    const row = rowOf(step, steps[at + 1])
    return row === undefined ? [] : [{ row, ms: step.ms }]
  })
}

const at = (place: string, text: string, look: Row['look'] = ''): Row => {
  return { from: place, to: place, text, look }
}

function rowOf({ actor, what }: Step, next: Step | undefined): Row | undefined {
  const [first = '', second = ''] = what.split(' ')
  if (actor === 'fault') {
    const fault = FAULTS[first]?.(second)
    return fault && at(fault.to, fault.text, 'bad')
  }
  if (what.startsWith('backend of')) return at(POSTGRES, 'connection gone: rolls back', 'bad')
  const worker = workerOf(actor)
  const [, key] = /^has #\d+ (\S+)/.exec(what) ?? []
  if (key !== undefined) return { from: BROKER, to: worker, text: key, look: '' }
  if (what === 'open>' && !actor.endsWith('.1')) return at(worker, 'starts again')
  const remark = REMARKS[first]
  if (remark !== undefined) return at(worker, remark)
  return arrowOf(worker, what, next)
}

function arrowOf(worker: string, what: string, next: Step | undefined): Row | undefined {
  const answer = ANSWERS[what]
  if (answer !== undefined) return { from: POSTGRES, to: worker, text: answer[0], look: answer[1] }
  // Without a handler's statement after it, the insert has found the row of another delivery.
  if (what === 'begin<' && next?.what.startsWith('ack'))
    return { from: POSTGRES, to: worker, text: 'the row is there: done before', look: 'answer' }
  const arrow = ARROWS[what]
  const look = what === 'ack>' ? 'good' : ''
  return arrow && { from: worker, to: arrow[0], text: arrow[1], look }
}
