import { readdirSync, readFileSync } from 'node:fs'
import type { Pool } from 'pg'

/** Processor time, microseconds. */
export interface ProcessorTime {
  readonly user: number
  readonly system: number
  /** Of all backends of the server. */
  readonly server: number
}

export interface ProcessorMeter {
  read(): ProcessorTime
}

/** One tick of /proc is a hundredth of a second on every Linux that Node supports. */
const TICK_US = 10_000

/**
 * Reads the processor time of a process and of a server on this machine. Without /proc the server counts as 0.
 *
 * @param pid - Of the process. Default: this one.
 */
export async function processorMeter(pool: Pool, pid?: number): Promise<ProcessorMeter> {
  const { rows } = await pool.query('select pg_backend_pid() as pid')
  const postmaster = statOf(rows[0].pid)?.parent
  const usage = pid === undefined ? () => process.cpuUsage() : () => usageOf(pid)
  return {
    read: () => ({ ...usage(), server: serverTime(postmaster) }),
  }
}

function usageOf(pid: number): Omit<ProcessorTime, 'server'> {
  const { ticks = 0, systemTicks = 0 } = statOf(pid) ?? {}
  return { user: (ticks - systemTicks) * TICK_US, system: systemTicks * TICK_US }
}

/** Times of children that have ended are in those of the postmaster. */
function serverTime(postmaster: number | undefined): number {
  if (postmaster === undefined) return 0
  const own = statOf(postmaster)
  const backends = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => statOf(Number(name)))
    .filter((stat) => stat?.parent === postmaster)
  const ticks = [...backends.map((stat) => stat?.ticks ?? 0), own?.ticks ?? 0, own?.childTicks ?? 0]
  return ticks.reduce((sum, each) => sum + each, 0) * TICK_US
}

interface Stat {
  readonly parent: number
  readonly ticks: number
  /** Of these in the kernel. */
  readonly systemTicks: number
  readonly childTicks: number
}

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // After the command, which may hold spaces and parentheses: state, parent, … See proc_pid_stat(5).
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const at = (field: number): number => fields[field - 3] ?? 0
    return {
      parent: at(4),
      ticks: at(14) + at(15),
      systemTicks: at(15),
      childTicks: at(16) + at(17),
    }
  } catch {
    return undefined
  }
}
