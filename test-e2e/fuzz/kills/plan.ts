import type { Plan } from '../handlers/plan.ts'

/** A case whose handlers may kill their process. */
export interface KillPlan extends Plan {
  /** First deliveries may have run before, as on Kafka after an assignment. */
  readonly isFirstSuspect: boolean
  /** Messages are delivered again at once, while the server may still hold what the dead process had. */
  readonly isPrompt: boolean
}
