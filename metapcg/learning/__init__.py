"""What every algorithm shares: policies, rollouts, advantages, training loops for plugged-in solutions."""
