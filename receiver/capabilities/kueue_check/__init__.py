"""An AdmissionCheck of Kueue: Workloads are admitted once the budgets cover them."""
