import type { Fuzz } from './fuzz.ts'

/** The forms by the name that the command line takes. Each is loaded only when it is played. */
export const FORMS: Readonly<Record<string, () => Promise<Fuzz>>> = {
  handlers: async () => (await import('./handlers/index.ts')).handlers,
  hangs: async () => (await import('./hangs/hangs.ts')).hangs,
  bytes: async () => (await import('./bytes/index.ts')).bytesFuzz,
  configurations: async () => (await import('./configurations/index.ts')).configurations,
}
